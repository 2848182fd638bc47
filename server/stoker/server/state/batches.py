"""A batch under way: which of its rows nobody has claimed, and how many are not yet written.

Rows are those of the global batch. `ranges` holds what is unclaimed, in the order in which it is
claimed: what was lost with a worker first. A `whole` range is claimed as it is, alone: it is under
suspicion, and a second death must tell which row was it.

Invariant: missing = unclaimed + (rows of claims that have not ended), until the batch is void or
has failed.
"""

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from stoker.protocol.errors import UsageError
from stoker.protocol.layout import Placed, batch_layout, told_shapes
from stoker.protocol.messages import Error
from stoker.server.state.slots import Slot

if TYPE_CHECKING:
    from stoker.server.state.groups import Group


Shapes = tuple[tuple[int, ...], ...]
"""Shape of a row in one batch, of each output that READY tells it of."""


class Range(NamedTuple):
    """Rows [lo, hi) that are unclaimed; a whole one is never cut."""

    lo: int
    hi: int
    whole: bool = False


class BatchState:
    """One step of a run, being filled or waiting for its turn.

    Attributes:
        group: whose batch it is.
        cut: which of the global batch's rows it has, and how they lie in the slot.
        serial: its number in the run; batches are claimed and delivered in this order.
        unclaimed: rows in `ranges`.
        missing: rows that no claim has delivered.
        void: nobody wants it any more.
        failure: the error that it ends with, and the first row of the claim that failed.
        crashed: samples that are replaced in it since they crashed workers, ascending.
        outputs: where its outputs lie, as READY tells it; None until a claim is done.
    """

    __slots__ = (
        "_shapes", "crashed", "cut", "epoch", "failed_lo", "failure", "group", "missing", "outputs",
        "ranges", "serial", "slot", "step", "unclaimed", "void",
    )  # fmt: skip

    def __init__(self, group: "Group", serial: int, epoch: int, step: int, slot: Slot) -> None:
        self.group = group
        self.serial = serial
        self.epoch = epoch
        self.step = step
        self.slot = slot
        self.cut = group.course.cut(epoch, step)
        self.missing = self.unclaimed = self.cut.rows
        self.ranges = deque([Range(self.cut.first_row, self.cut.first_row + self.cut.rows)])
        self.crashed = group.crashed(epoch, step)
        self.void = False
        self.failure: Error | None = None
        self.failed_lo = 0
        self.outputs: list[Placed] | None = None
        self._shapes: Shapes = ()

    def take(self, rows: int, unit: int = 1) -> tuple[int, int]:
        """Claim rows; returns [lo, hi).

        Args:
            rows: how many at most, but for the rest of a unit; a whole range is claimed entirely.
            unit: rows are cut before those whose number divides by it.
        """
        lo, hi, whole = self.ranges[0]
        cut = -(-(lo + rows) // unit) * unit
        if whole or hi <= cut:
            self.ranges.popleft()
        else:
            hi = cut
            self.ranges[0] = Range(hi, self.ranges[0].hi)
        self.unclaimed -= hi - lo
        return lo, hi

    def put_back(self, ranges: list[Range]) -> None:
        """Rows whose claim was lost are claimed again, before all others."""
        if self.failure is not None:
            ranges = [r for r in ranges if r.lo < self.failed_lo]
        self.ranges.extendleft(reversed(ranges))
        self.unclaimed += sum(r.hi - r.lo for r in ranges)

    def isolate(self, ranges: list[Range]) -> None:
        """Nothing is claimed yet: have these adjoining ranges claimed as they are."""
        first, last = self.ranges[0].lo, self.ranges[0].hi
        parts = [Range(first, ranges[0].lo), *ranges, Range(ranges[-1].hi, last)]
        self.ranges = deque(part for part in parts if part.hi > part.lo)

    def fail(self, lo: int, failure: Error) -> None:
        """The claim that begins at row `lo` failed: only rows below it matter from now on.

        So the error that a batch ends with is that of its first bad row, whatever the timing.
        """
        if self.failure is None or lo < self.failed_lo:
            self.failure, self.failed_lo = failure, lo
            self.ranges = deque(r for r in self.ranges if r.lo < lo)
            self.unclaimed = sum(r.hi - r.lo for r in self.ranges)

    def tell_shapes(self, shapes: Shapes) -> None:
        """A claim that is done says in which shapes it wrote the rows of outputs that `is_told`.

        Raises:
            UsageError: these are not the outputs' shapes, or not those that another claim said.
        """
        if self.outputs is None:
            told = told_shapes(self.cut.outputs, shapes)
            self.outputs = list(batch_layout(self.cut.layout, told).outputs)
            self._shapes = shapes
        elif shapes != self._shapes:
            raise UsageError(
                f"two workers disagree on the shapes of a batch, {self._shapes} and {shapes}: its "
                "bytes cannot be trusted; report this with the pipeline",
                epoch=self.epoch,
                step=self.step,
            )

    @property
    def is_newest(self) -> bool:
        """Whether its run has begun no later one, so that nothing waits for it yet."""
        run = self.group.run
        return run is not None and bool(run.pending) and run.pending[-1] is self

    @property
    def settled(self) -> bool:
        """Whether nothing of it is claimed or unclaimed."""
        return not self.slot.writers and not self.unclaimed

    def drop(self) -> None:
        """Nobody wants it any more."""
        self.void = True
        self.ranges.clear()
        self.unclaimed = 0


class Claim:
    """A chunk in the hands of a worker: rows [lo, hi) of a batch."""

    __slots__ = ("batch", "hi", "lo", "number")

    def __init__(self, number: int, batch: BatchState, lo: int, hi: int) -> None:
        self.number = number
        self.batch = batch
        self.lo = lo
        self.hi = hi
