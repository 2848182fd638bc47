"""One batch of a loader: a mapping whose entries are also attributes.

Frameworks rebuild batches from changed entries: `type(batch)({name: change(value), ...})`, or by
flattening and unflattening. Such a batch has entries alone. Its `BatchOrigin` (epoch, step, digests
and so on) stays with the batch that the loader gave, and with copies made by the batch itself:
`to`, `copy`, `deepcopy` and pickle. No batch owns memory: arrays hold their slot (see `lease`), so
a slot is free as soon as the last array in it dies, whichever batch that array is in.
"""

import copy
import dis
import sys
import threading
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Any, Final, NamedTuple

import numpy as np

from stoker.client.batches import batch_trees
from stoker.client.verifying import Digests
from stoker.protocol.errors import UsageError
from stoker.protocol.output_forms import change_arrays, described, within_sizes
from stoker.protocol.slot_layout import SIZE
from stoker.protocol.spec import StreamSpec

UNPACK: Final = dis.opmap["UNPACK_SEQUENCE"]
"""The instruction of `a, b = batch`."""

ASKED_FOR: Final = {
    "params": ("draw records", "params=True"),
    "digest": ("digests", "verify=True"),
    "chain": ("digests", "verify=True"),
}
"""Attribute that a batch has only if its loader asked for it -> what it is, and how to ask."""

OF_ORIGIN: Final = frozenset({"epoch", "step", "pipeline_id", "stream_id", *ASKED_FOR})
"""Attributes that a batch has only if it came from a loader."""


class ReadMarks:
    """A record of reads from a batch; it outlives the batch and holds no memory of it.

    A framework that converts a batch reads all of its entries, and makes a `Batch` of them: that
    says nothing about the loop, which gets the new batch. It has the record of the old one.

    Attributes:
        valid: whether `valid` was read by its name.
        all: whether all entries were read, in order.
        rebuilt: whether a batch was made of them.
    """

    __slots__ = ("all", "rebuilt", "valid")

    def __init__(self) -> None:
        self.valid = self.all = self.rebuilt = False

    @property
    def is_valid_read(self) -> bool:
        """True if the loop may have read `valid`."""
        return self.valid or (self.all and not self.rebuilt)


class _Taken(threading.local):
    """The record of the batch whose entries this thread has read last, until it makes another."""

    marks: ReadMarks | None = None


_taken: Final = _Taken()


class BatchOrigin(NamedTuple):
    """The place of a batch in its stream, and the facts about it that are not entries.

    Attributes:
        epoch: from 0.
        step: within the epoch, from 0.
        spec: of its stream.
        params: stream name -> draw records; None: the loader was not asked for them.
        digests: its digest, and that of all batches up to it; None: not asked for.
        marks: reads of the batch, and of its copies.
    """

    epoch: int
    step: int
    spec: StreamSpec
    params: Mapping[str, np.ndarray] | None
    digests: Digests | None
    marks: ReadMarks


Entries = Mapping[str, Any] | Iterable[tuple[str, Any]]


class Batch(Mapping[str, Any]):
    """The outputs of one batch, then `index`, `requested` and `valid`, by name.

    `batch["image"]` and `batch.image` are the same array. Arrays are torch tensors on the loader's
    device, or NumPy arrays, of shape (rows, ...). Large ones are in memory shared with the daemon,
    which is returned when the last of them dies, so a batch that is kept occupies a slot. Boxes and
    keypoints are `Ragged`: copies of values, offsets and fields. Where rows differ in shape, the
    pipeline decides the form: padded to one array (`batch["image.size"]` and `real` say which
    elements are real), as `RaggedArray`, or as a list of arrays.

    `Batch(entries)` makes a batch of other entries, as `dict(entries)` does. It has no epoch, step,
    ids, digests or draw records, which describe the bytes of the loader's own batch alone.
    It has `index`, `requested` and `valid` if they are among the entries.

    Args:
        entries: values by name, or pairs of a name and a value. A batch keeps its origin.
        origin: where the loader took it from.
    """

    __slots__ = ("_entries", "_marks", "_origin")

    def __init__(self, entries: Entries = (), origin: BatchOrigin | None = None) -> None:
        batch_trees.register()
        if origin is None and isinstance(entries, Batch):
            origin = entries._origin
        given = entries._entries if isinstance(entries, Batch) else entries
        self._entries: dict[str, Any] = dict(given)
        self._origin: BatchOrigin | None = origin
        self._marks = _record(entries, origin)

    @property
    def epoch(self) -> int:
        """The epoch, from 0."""
        return self._known().epoch

    @property
    def step(self) -> int:
        """The step within the epoch, from 0."""
        return self._known().step

    @property
    def index(self) -> Any:
        """Sample ids delivered, (rows,) int64; -1 in padding rows."""
        return self._own("index")

    @property
    def requested(self) -> Any:
        """Sample ids that the order asked for, (rows,) int64."""
        return self._own("requested")

    @property
    def valid(self) -> Any:
        """True for rows that count, (rows,) bool."""
        return self._own("valid")

    @property
    def pipeline_id(self) -> str:
        """Hash of the batch's pipeline: graph, parameters, op versions; 32 hex digits."""
        return self._known().spec.pipeline

    @property
    def stream_id(self) -> str:
        """Hash of everything its bytes depend on except epoch and step; 32 hex digits."""
        return self._known().spec.stream_id

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

    @property
    def params(self) -> Any:
        """The draw records of each row: stream name -> structured NumPy array (rows,).

        `made` says whether the decision was made for the row; the other fields are those of the
        op's draw record, all 0 if it was not made. Always in host memory.

        Raises:
            AttributeError: the loader was made without `params=True`.
        """
        params = self._known().params
        if params is None:
            raise AttributeError  # `__getattr__` says what to do
        return params

    def _known(self) -> BatchOrigin:
        if self._origin is None:
            raise AttributeError  # `__getattr__` says what to do
        return self._origin

    def _verified(self) -> Digests:
        digests = self._known().digests
        if digests is None:
            raise AttributeError  # `__getattr__` says what to do
        return digests

    def _own(self, name: str) -> Any:
        if name not in self._entries:
            raise AttributeError  # `__getattr__` says what there is
        return self[name]

    def real(self, name: str) -> Any:
        """Return which elements of a padded output are real, not padding.

        Args:
            name: name of an output of form `pad`.

        Returns:
            (rows, n sides) bool, on the output's device: (rows, height, width) for images.

        Raises:
            KeyError: there is no such output, or it is not padded.
        """
        sizes = self._entries.get(f"{name}.{SIZE}")
        if sizes is None:
            padded = [n.removesuffix(f".{SIZE}") for n in self._entries if n.endswith(f".{SIZE}")]
            raise KeyError(
                f"real: {name!r} is not a padded output (outputs.pad); this batch has "
                f"{', '.join(map(repr, padded)) or 'none'}"
            )
        array = self._entries[name]
        return within_sizes(array.shape[1 : 1 + sizes.shape[1]], sizes)

    def to(self, device: Any, non_blocking: bool = False) -> "Batch":
        """Return the batch with its tensors on another device (torch only).

        Raises:
            UsageError: an entry is a NumPy array.
        """

        def moved(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                raise UsageError(
                    "to: this batch has NumPy arrays, which have no device: make the Loader with "
                    "device='cpu' or device='cuda' for tensors"
                )
            return value.to(device, non_blocking=non_blocking) if hasattr(value, "to") else value

        entries = {name: change_arrays(value, moved) for name, value in self._entries.items()}
        return self._of(entries)

    def __copy__(self) -> "Batch":
        return self._of(self._entries)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Batch":
        return self._of(copy.deepcopy(self._entries, memo))

    def _of(self, entries: dict[str, Any]) -> "Batch":
        """Return this batch with other values."""
        made = Batch(self)
        made._entries = dict(entries)
        return made

    def __getitem__(self, name: str) -> Any:
        if name == "valid" and self._marks is not None:
            self._marks.valid = True
        try:
            return self._entries[name]
        except KeyError:
            raise KeyError(self._unknown(name)) from None

    def _unknown(self, name: object) -> str:
        """Return what there is instead of an entry."""
        if isinstance(name, int):
            first = next(iter(self._entries), "image")
            return (
                f"{name}: a batch has entries by name. Row {name} of one is "
                f"batch[{first!r}][{name}]; loader.replay_row(batch, {name}) has all of a row"
            )
        return f"{name!r}: this batch has {', '.join(map(str, self._entries))}"

    def items(self) -> ItemsView[str, Any]:
        """Return the names and entries."""
        self._take_all()
        return self._entries.items()

    def values(self) -> ValuesView[Any]:
        """Return the entries."""
        self._take_all()
        return self._entries.values()

    def _take_all(self) -> None:
        _taken.marks = self._marks
        if self._marks is not None:
            self._marks.all = True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"a batch has no attribute {name!r}")
        if name in self._entries:
            return self._entries[name]
        if name in OF_ORIGIN and self._origin is None:
            raise AttributeError(
                f"this batch has no {name}: it was made from changed entries, as frameworks do "
                f"that convert a batch. Read {name} from the batch that the loader gave"
            )
        if name in ASKED_FOR:
            what, option = ASKED_FOR[name]
            raise AttributeError(
                f"this batch has no {what}; ask for them with Loader(..., {option})"
            )
        raise AttributeError(
            f"this batch has no output {name!r}; it has {', '.join(map(str, self._entries))}"
        )

    def __iter__(self) -> Iterator[str]:
        caller = sys._getframe(1)
        if caller.f_code.co_code[caller.f_lasti] == UNPACK:
            names = list(self._entries)[:2]
            raise UsageError(
                "a batch is a mapping of outputs by name, and cannot be unpacked: use "
                f"{', '.join(f'batch.{name}' for name in names)}, or "
                f"Loader(..., as_tuple={tuple(names)!r})"
            )
        return iter(self._entries)

    def __dir__(self) -> list[str]:
        """Return also the names of entries, which notebooks then complete."""
        return sorted({*super().__dir__(), *filter(str.isidentifier, self._entries)})

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {described(value)}" for name, value in self._entries.items())
        origin = self._origin
        place = "" if origin is None else f"epoch {origin.epoch}, step {origin.step}; "
        return f"Batch({place}{parts})"

    def _repr_html_(self) -> str:
        """Return what notebooks show: the first rows of its pictures, and its entries."""
        from stoker.client.batches.batch_html import batch_html  # noqa: PLC0415 - for notebooks alone

        origin = self._origin
        place = "" if origin is None else f", epoch {origin.epoch}, step {origin.step}"
        return batch_html(f"Batch{place}", self._entries)


def _record(entries: Entries, origin: BatchOrigin | None) -> ReadMarks | None:
    """Return the record of a new batch: that of the batch from which its entries are."""
    if isinstance(entries, Batch):
        return entries._marks
    if origin is not None:
        return origin.marks
    marks, _taken.marks = _taken.marks, None
    if marks is not None:
        marks.rebuilt = True
    return marks


def _parts(batch: Batch) -> batch_trees.Parts:
    return list(batch.items()), tuple(batch)


def _rebuilt(names: tuple[str, ...], values: Iterable[Any]) -> Batch:
    return Batch(zip(names, values, strict=True))


batch_trees.nodes.append(batch_trees.Node(Batch, _parts, _rebuilt))
