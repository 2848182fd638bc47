"""Batch ops, which read other rows than their own: the contract of mixup, cutmix and mosaic.

A batch op draws as every op does, from the row's own key. Its draws may name another row: a
member of the row's group, or samples of the dataset. A **group** is `GROUP` neighboring rows of
the global batch, starting at a multiple of `GROUP`; the last one of a batch may be smaller. Groups
do not depend on ranks, chunks or workers, so partners do not either.

A decision is drawn without knowing the other rows; `resolve` completes its record once they are
known. A row whose partner is not available (the partner pads the batch, its sample is bad and
masked, or the row is alone in its group) stays unchanged: its record has `applied` 0.

Everything is computed from finished rows: a batch op follows all other ops, and only batch ops
follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.rules import COLORS, refuse
from stoker.ops.contract.states import State
from stoker.ops.kernels.means import Tools

GROUP: Final = 8
"""Rows of a group."""
OFFSETS: Final = 420
"""Least common multiple of 1 to 7: an integer below it is uniform modulo each of them."""
FLOATS: Final = ("float16", "float32", "float64")


class Mixed(NamedTuple):
    """One value of a call, as a batch op mixes it.

    Attributes:
        state: the state of the value before.
        sources: the row's own value, then those of the other rows, contiguous; of boxes and
            keypoints only the existing items.
        dst: the destination, in the state of the result; it does not overlap a source.
    """

    state: State
    sources: Sequence[np.ndarray]
    dst: np.ndarray


@dataclass(frozen=True)
class BatchOp(Op):
    """Base of the batch ops.

    Class attributes:
        others: the number of other rows it reads.
        of_dataset: whether these are samples drawn from the dataset, computed as separate rows;
            otherwise there is one, of the row's group.
        needs_picture: whether a call without an image, mask or array of pixels is refused.

    A record has the fields `applied`; `offset` or, for samples of the dataset, `words`; and those
    that `resolve` completes.
    """

    others: ClassVar[int] = 1
    of_dataset: ClassVar[bool] = False
    needs_picture: ClassVar[bool] = False
    random: ClassVar[bool] = True
    call_options = ("stream",)
    kernels: ClassVar[dict[str, Kernel]] = {}

    def mixed(self, state: State) -> State:
        """Return the state of the result.

        Raises:
            StateError: there is no rule for the kind, dtype or shape.
        """
        raise NotImplementedError

    def resolve(self, record: np.ndarray, size: tuple[int, int], ids: Sequence[int]) -> None:
        """Complete a record.

        Args:
            record: (1,), of the op's dtype.
            size: height and width in pixels of the images; (0, 0) without images.
            ids: ids of the samples that the other rows show.
        """
        raise NotImplementedError

    def mix(self, value: Mixed, record: Any, tools: Tools) -> int:
        """Write the result for one value of a row.

        Args:
            value: one that is an output.
            record: a resolved record; `applied` is 1.
            tools: the arithmetic to use.

        Returns:
            The number of items written, for boxes and keypoints; else 0.
        """
        raise NotImplementedError

    def check_call(self, states: Sequence[State]) -> None:
        """Refuse values that cannot be mixed together; `states` are those of a call's outputs.

        Raises:
            StateError: names what is missing or too much, and what to change.
        """

    def mix_all(self, values: Sequence[Mixed], record: Any, tools: Tools) -> list[int]:
        """Write all values of a row's call; ops whose values depend on each other override this.

        Args:
            values: those that are outputs, in their order.
            record: a resolved record; `applied` is 1.
            tools: the arithmetic to use.

        Returns:
            For each value the number of items written; 0 for other kinds.
        """
        return [self.mix(value, record, tools) for value in values]


def partner(member: int, offset: int, size: int) -> int:
    """Return the other group member for an offset in [0, OFFSETS); all are equally likely.

    Args:
        member: the row's index in its group, from 0.
        offset: the drawn number.
        size: the number of rows of the group, at least 2.
    """
    return (member + 1 + offset % (size - 1)) % size


def tile_ids(words: Sequence[int], rows: int) -> list[int]:
    """Return the dataset ids that 64-bit words select: the upper half of word * rows."""
    return [int(word) * rows >> 64 for word in words]


def picture_size(state: State) -> tuple[int, int] | None:
    """Return height and width of a value with pixels; None for one without.

    An image is (H, W, C), a mask (H, W). An array of three sides is (C, H, W) if the first side
    is at most 4 and the last is not, else (H, W, C); one of two sides is (H, W).
    """
    if state.items or len(state.shape) not in (2, 3) or not state.is_fixed:
        return None
    return grid(state)[1:]


def grid(state: State) -> tuple[int, int, int]:
    """Return (planes, height, width) of a value with pixels of a fixed size.

    Planes follow each other: the channels of (C, H, W), one plane for everything else.
    """
    sides = state.bound
    planar = state.kind == "array" and len(sides) == 3 and sides[0] <= COLORS < sides[2]
    return (sides[0], sides[1], sides[2]) if planar else (1, sides[0], sides[1])


def planes(state: State, array: np.ndarray) -> np.ndarray:
    """Return a view (planes, H, W, channels) of a value with pixels."""
    return array.reshape(*grid(state), -1)


def require_fixed(op: str, state: State) -> None:
    """Refuse images, masks and arrays whose size differs from row to row.

    Raises:
        StateError: names op and state.
    """
    if not state.items and not state.is_fixed:
        remedy = "Resize or crop it first, so that all rows have one size"
        raise refuse(op, "values of one size", state, remedy)


def require_weights(op: str, state: State) -> None:
    """Refuse labels and numbers that have no weighted mean.

    Raises:
        StateError: names op and state.
    """
    if state.dtype not in FLOATS:
        remedy = "Turn class numbers into vectors first: ops.one_hot(label, classes=...)"
        raise refuse(op, f"a label or number of dtype {', '.join(FLOATS)}", state, remedy)


def bounded(state: State, times: int) -> State:
    """Return the state of boxes or keypoints of that many rows together."""
    return State.ragged(state.kind, state.items, state.bound[0] * times, state.of)
