"""Mixup of images and labels: each row with the row before it in its batch.

The first row is mixed with the last. `ImageMixup` and `LabelMixup` draw from one stream, so the
shares of images and labels are the same without any further setting; a loader refuses a pair with
different parameters. The share of a row depends on seed, epoch and sample id; the neighbor, which
FFCV defines, depends on the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np

from stoker.compat.ffcv.pipeline.allocation_query import Allocation, AllocationQuery
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.protocol.errors import BuildError, UsageError

SMALLEST, LARGEST = 1e-6, 1e6
PARTS: Final = 3
"""Numbers of a mixed label: its own label, that of the row before it, the share of its own."""


class _Mixup(Operation):
    """Base of both: the parameters, and the stream of the shares.

    Args:
        alpha: both parameters of the beta distribution of the shares.
        same_lambda: whether all rows of a batch have one share, drawn by the first row.

    Raises:
        UsageError: alpha is out of bounds.
    """

    is_batch_op = True
    stream: ClassVar[str | None] = "mixup"

    def __init__(self, alpha: float, same_lambda: bool) -> None:
        if not SMALLEST <= alpha <= LARGEST:
            raise UsageError(
                f"{type(self).__name__}: expected alpha from {SMALLEST} to {LARGEST:g}, got "
                f"{alpha!r}"
            )
        self.alpha = alpha
        self.same_lambda = same_lambda


class ImageMixup(_Mixup):
    """Mix each image with the one before it; works on arrays, before `ToTensor`.

    Levels are rounded down, as in FFCV. See `_Mixup` for the parameters.
    """

    def generate_code(self) -> Callable[..., Any]:
        """Return the function that mixes."""
        parallel_range = Compiler.get_iterable()
        alpha, same = float(self.alpha), self.same_lambda

        def mix_images(images: Any, dst: Any) -> Any:
            shares = np.empty(images.shape[0], np.float64)
            if same:
                shares[:] = np.random.beta(alpha, alpha)
            else:
                shares[:] = np.random.beta(alpha, alpha, images.shape[0])
            for i in parallel_range(images.shape[0]):
                dst[i] = shares[i] * images[i] + (1 - shares[i]) * images[i - 1]
            return dst

        mix_images.is_parallel = True  # type: ignore[attr-defined]
        return mix_images

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the same state, and memory for a result.

        Raises:
            BuildError: it gets tensors, or a dtype that machine code cannot compute with.
        """
        if not previous_state.is_array:
            raise BuildError(
                f"ImageMixup: expected arrays, got {previous_state}: put ToTensor() after it"
            )
        if np.dtype(previous_state.dtype) == np.float16:
            raise BuildError(
                f"ImageMixup: expected integers, float32 or float64, got {previous_state}: put it "
                "before the NormalizeImage that makes float16"
            )
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype)


class LabelMixup(_Mixup):
    """Give each row its label, the label of the row before it, and the share of its own.

    The result is (3,) float32 per row; `MixupToOneHot` makes class weights of it. See `_Mixup` for
    the parameters, which must be those of the `ImageMixup`.
    """

    def generate_code(self) -> Callable[..., Any]:
        """Return the function that pairs labels."""
        parallel_range = Compiler.get_iterable()
        alpha, same = float(self.alpha), self.same_lambda

        def mix_labels(labels: Any, dst: Any) -> Any:
            shares = np.empty(labels.shape[0], np.float64)
            if same:
                shares[:] = np.random.beta(alpha, alpha)
            else:
                shares[:] = np.random.beta(alpha, alpha, labels.shape[0])
            for i in parallel_range(labels.shape[0]):
                dst[i, 0] = labels[i, 0]
                dst[i, 1] = labels[i - 1, 0]
                dst[i, 2] = shares[i]
            return dst

        mix_labels.is_parallel = True  # type: ignore[attr-defined]
        return mix_labels

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the state of three float32.

        Raises:
            BuildError: it does not get one label per row, as an array.
        """
        if not previous_state.is_array or previous_state.shape != (1,):
            raise BuildError(
                f"LabelMixup: expected arrays of one label per row, got {previous_state}: put it "
                "after IntDecoder() and before ToTensor()"
            )
        dtype = np.dtype(np.float32)
        return replace(previous_state, shape=(PARTS,), dtype=dtype), AllocationQuery(
            (PARTS,), dtype
        )


class MixupToOneHot(Operation):
    """Make class weights of the tensors from `LabelMixup`: the shares of both labels.

    Where both labels are equal the weight is 1; FFCV leaves only the second share there.

    Args:
        num_classes: labels are below it.
    """

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes

    def generate_code(self) -> Callable[..., Any]:
        """Return the function that spreads the shares."""
        count = self.num_classes

        def to_one_hot(mixed: Any, dst: Any) -> Any:
            labels, share = mixed[:, :2].long(), mixed[:, 2:]
            if not mixed.is_cuda and len(mixed) and not 0 <= labels.min() <= labels.max() < count:
                raise UsageError(
                    f"MixupToOneHot: expected labels from 0 to {count - 1}, got "
                    f"{int(labels.min())} to {int(labels.max())}: correct num_classes"
                )
            weights = mixed.new_zeros((len(mixed), count))
            weights.scatter_add_(1, labels[:, :1], share)
            return weights.scatter_add_(1, labels[:, 1:], 1 - share)

        return to_one_hot

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the state of one weight per class.

        Raises:
            BuildError: it gets something else than the tensors of `LabelMixup`.
        """
        if previous_state.is_array or previous_state.shape != (PARTS,):
            raise BuildError(
                f"MixupToOneHot: expected tensors of shape ({PARTS},) from LabelMixup, got "
                f"{previous_state}: put LabelMixup(...) and ToTensor() before it"
            )
        return replace(previous_state, shape=(self.num_classes,)), None
