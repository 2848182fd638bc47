"""One batch of a loader: a mapping whose entries are also attributes."""

import dis
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from stoker.client.verifying import Digests
from stoker.protocol.errors import UsageError
from stoker.protocol.forms import change_arrays, described, within_sizes
from stoker.protocol.layout import SIZE
from stoker.protocol.spec import StreamSpec

UNPACK: Final = dis.opmap["UNPACK_SEQUENCE"]
"""The instruction of `a, b = batch`."""

ASKED_FOR: Final = {
    "params": ("draw records", "params=True"),
    "digest": ("digests", "verify=True"),
    "chain": ("digests", "verify=True"),
}
"""Attribute that a batch has only if its loader asked for it -> what it is, and how to ask."""


class Noted:
    """What was asked of a batch; it outlives the batch and holds no memory of it.

    Attributes:
        valid: whether somebody asked for `valid`.
    """

    __slots__ = ("valid",)

    def __init__(self) -> None:
        self.valid = False


class Batch(Mapping[str, Any]):
    """The outputs of one batch, then `index`, `requested` and `valid`, by name.

    `batch["image"]` and `batch.image` are the same array. Arrays are torch tensors on the loader's
    device, or NumPy arrays, of shape (rows, ...). Large ones are in memory shared with the daemon,
    which is returned when the last of them dies, so a batch that is kept occupies a slot. Boxes and
    keypoints are `Ragged`: copies of values, offsets and fields. Where rows differ in shape, the
    pipeline decides the form: padded to one array (`batch["image.size"]` and `real` say which
    elements are real), as `RaggedArray`, or as a list of arrays.

    Attributes:
        epoch: the epoch, from 0.
        step: the step within the epoch, from 0.
        noted: what was asked of it.
    """

    __slots__ = ("_arrays", "_digests", "_params", "_spec", "epoch", "noted", "step")

    def __init__(
        self,
        arrays: Mapping[str, Any],
        epoch: int,
        step: int,
        spec: StreamSpec,
        params: Mapping[str, np.ndarray] | None = None,
        digests: Digests | None = None,
    ) -> None:
        self._arrays = arrays
        self._spec = spec
        self._params = params
        self._digests = digests
        self.epoch = epoch
        self.step = step
        self.noted = Noted()

    @property
    def index(self) -> Any:
        """Sample ids delivered, (rows,) int64; -1 in padding rows."""
        return self._arrays["index"]

    @property
    def requested(self) -> Any:
        """Sample ids that the order asked for, (rows,) int64."""
        return self._arrays["requested"]

    @property
    def valid(self) -> Any:
        """Which rows count, (rows,) bool."""
        return self["valid"]

    @property
    def pipeline_id(self) -> str:
        """Hash of the batch's pipeline: graph, parameters, op versions; 32 hex digits."""
        return self._spec.pipeline

    @property
    def stream_id(self) -> str:
        """Hash of everything its bytes depend on except epoch and step; 32 hex digits."""
        return self._spec.stream_id

    @property
    def digest(self) -> str:
        """Digest of the batch's bytes, 32 hex digits; the same whenever the batch is computed.

        It covers every row that this rank received, also those that a short last batch leaves out.

        Raises:
            AttributeError: the loader was made without `verify=True`.
        """
        return self._verified().batch

    @property
    def chain(self) -> str:
        """Digest of all batches that the loader has given so far, in order; 32 hex digits.

        It is the same for any number of daemons, and whether or not one was lost meanwhile.

        Raises:
            AttributeError: the loader was made without `verify=True`.
        """
        return self._verified().chain

    def _verified(self) -> Digests:
        if self._digests is None:
            raise AttributeError  # `__getattr__` says what to do
        return self._digests

    @property
    def params(self) -> Any:
        """The draw records of each row: stream name -> structured NumPy array (rows,).

        `made` says whether the decision was made for the row; the other fields are those of the
        op's draw record, all 0 if it was not made. Always in host memory.

        Raises:
            AttributeError: the loader was made without `params=True`.
        """
        if self._params is not None:
            return self._params
        raise AttributeError  # `__getattr__` says what to do

    def real(self, name: str) -> Any:
        """Return which elements of a padded output are real, not padding.

        Args:
            name: name of an output of form `pad`.

        Returns:
            (rows, n sides) bool, on the output's device: (rows, height, width) for images.

        Raises:
            KeyError: there is no such output, or it is not padded.
        """
        array, sizes = self._arrays[name], self._arrays[f"{name}.{SIZE}"]
        return within_sizes(array.shape[1 : 1 + sizes.shape[1]], sizes)

    def to(self, device: Any, non_blocking: bool = False) -> "Batch":
        """Return the batch with its tensors on another device (torch only)."""
        moved = {
            name: change_arrays(value, lambda array: array.to(device, non_blocking=non_blocking))
            for name, value in self._arrays.items()
        }
        batch = Batch(moved, self.epoch, self.step, self._spec, self._params, self._digests)
        batch.noted = self.noted  # a loop that reads `valid` of the moved batch has read it
        return batch

    def __getitem__(self, name: str) -> Any:
        if name == "valid":
            self.noted.valid = True
        return self._arrays[name]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._arrays:
            return self._arrays[name]
        if name in ASKED_FOR:
            what, option = ASKED_FOR[name]
            raise AttributeError(
                f"this batch has no {what}; ask for them with Loader(..., {option})"
            )
        known = ", ".join(self._arrays) if not name.startswith("_") else "other names"
        raise AttributeError(f"this batch has no output {name!r}; it has {known}")

    def __iter__(self) -> Iterator[str]:
        caller = sys._getframe(1)
        if caller.f_code.co_code[caller.f_lasti] == UNPACK:
            names = list(self._arrays)[:2]
            raise UsageError(
                "a batch is a mapping of outputs by name, and cannot be unpacked: use "
                f"{', '.join(f'batch.{name}' for name in names)}, or "
                f"Loader(..., as_tuple={tuple(names)!r})"
            )
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {described(value)}" for name, value in self._arrays.items())
        return f"Batch(epoch {self.epoch}, step {self.step}; {parts})"
