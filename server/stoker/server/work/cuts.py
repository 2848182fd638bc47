"""The part of a rank in the global batches of one bucket; without buckets, in all global batches.

The daemon, its workers and the reference compute it with the same code, so a row's place in the
slot follows from its number alone. numba-free.
"""

from collections.abc import Sequence
from typing import NamedTuple

from stoker.order.rank_rows import rank_rows
from stoker.protocol.draw_records import params_output
from stoker.protocol.errors import BuildError, UsageError
from stoker.protocol.size_buckets import DRAWN_AS
from stoker.protocol.slot_layout import Output, SlotLayout, slot_layout
from stoker.protocol.spec import StreamSpec

MAX_ROWS = 2**24


class RankCut(NamedTuple):
    """A rank's part of a global batch.

    Attributes:
        first_row: the first of its rows in the global batch.
        outputs: what each row consists of.
        layout: the layout of the part in a slot.
        of: rows of the global batch.
    """

    first_row: int
    outputs: tuple[Output, ...]
    layout: SlotLayout
    of: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.layout.rows


class Share(NamedTuple):
    """The part of every global batch for `rank` of `world_size`, with `views` rows per position."""

    rank: int
    world_size: int
    views: int

    def of(self, positions: int) -> tuple[int, int]:
        """Return (first row, rows) of a global batch of this many positions.

        Raises:
            UsageError: the rank has no row, or too many.
        """
        total = positions * self.views
        lo, hi = rank_rows(total, self.rank, self.world_size)
        if hi <= lo:
            raise UsageError(
                f"rank {self.rank} of {self.world_size} has no row: a global batch has {total}"
                " rows; use a global batch of at least one row a rank"
            )
        if hi - lo > MAX_ROWS:
            raise UsageError(
                f"a rank has at most {MAX_ROWS} rows in a batch, got {hi - lo}; use a smaller batch"
                " size or fewer views"
            )
        return lo, hi - lo

    def cut(self, positions: int, outputs: tuple[Output, ...]) -> RankCut:
        """Return the part of a global batch of this many positions.

        Raises:
            UsageError: see `of`.
        """
        first, rows = self.of(positions)
        return RankCut(first, outputs, slot_layout(outputs, rows), positions * self.views)


def batch_outputs(
    spec: StreamSpec, outputs: tuple[Output, ...], params_bytes: int
) -> tuple[Output, ...]:
    """Return the outputs of a batch: the pipeline's, then what says how rows are drawn.

    Args:
        spec: the stream. With buckets or weights, and in a mixture, a row may draw with another
            epoch or visit than 0 and that of its batch, so `drawn_as` is added.
        outputs: of the pipeline.
        params_bytes: bytes of the draw records of a row; 0 if they are not wanted.
    """
    drawn_as = (DRAWN_AS,) if spec.buckets or spec.order.weights or spec.mix else ()
    return (*outputs, *drawn_as, *params_output(params_bytes))


def room_for(every: Sequence[tuple[Output, ...]]) -> tuple[Output, ...]:
    """Return outputs with room for those of every bucket: the greatest sides, and which vary.

    Raises:
        BuildError: an output cannot differ from bucket to bucket.
    """
    return tuple(_room(same) for same in zip(*every, strict=True))


def _room(same: tuple[Output, ...]) -> Output:
    first = same[0]
    sides = list(zip(*(output.shape for output in same), strict=True))
    varies = {place for output in same for place in output.varies}
    other = {place for place, found in enumerate(sides) if len(set(found)) > 1}
    if first.items or first.form != "stack":
        fixed = other - (set() if first.items else varies)
        if fixed:
            raise BuildError(
                f"output {first.name!r}: the sides {sorted(fixed)} of its rows are {sides} in the "
                f"buckets, but those of form {first.form!r} are the same in all of them: use form "
                "'stack', or fix its size"
            )
    varies |= other
    return Output(
        first.name, first.dtype, tuple(map(max, sides)), first.kind, first.items, first.form,
        tuple(sorted(varies)),
    )  # fmt: skip
