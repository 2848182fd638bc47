"""Groups and runs, as data: a slab, its slots, its sessions, and the run that fills the slots.

The members of a group are its sessions; this version makes groups of one member. A run is the
delivery that starts with one SEEK; `delivery` drives it. For the workers a group is a stream: its
number identifies rows, layout and slab.

A `BatchState` is a batch that is being computed: its unclaimed rows, and the number of rows not yet
written. Rows are those of the global batch. `ranges` holds the unclaimed rows in the order in which
they will be claimed, rows that were lost with a worker first. A `whole` range is claimed alone and
in one piece: it is under suspicion, and a second death must show which row caused it.

Invariant: missing == unclaimed + (rows of claims that have not ended), until the batch is void or
has failed.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from stoker.protocol.chain import ROW_DIGEST_BYTES
from stoker.protocol.errors import StokerError, UsageError
from stoker.protocol.layout import Placed, batch_layout, told_shapes
from stoker.protocol.messages import Error
from stoker.server.state.course import Course
from stoker.server.state.slots import Slot, SlotPool
from stoker.server.state.streams import Stream
from stoker.server.work.records import OpenStream


class Run:
    """The delivery that starts with one SEEK.

    Attributes:
        number: the client's number for it.
        credits: number of announcements that the client still grants.
        epoch: epoch of the next step to begin.
        step: the next step to begin.
        begun: number of batches begun, which is the serial of the next one.
        pending: batches that are begun and not announced, in order; never more than
            `credits + AHEAD_OF_CREDITS`.
        ending: whether no more steps are begun, because one failed.
        ended: whether it delivers nothing more.
        crashed: samples that are replaced from its start on, from the client's cursor.
        chain: that of the announced batches, if the stream is verified.
    """

    __slots__ = (
        "begun",
        "chain",
        "crashed",
        "credits",
        "ended",
        "ending",
        "epoch",
        "number",
        "pending",
        "step",
    )

    def __init__(self, number: int, epoch: int, step: int, crashed: Iterable[int] = ()) -> None:
        self.number = number
        self.crashed = frozenset(crashed)
        self.credits = 0
        self.epoch = epoch
        self.step = step
        self.begun = 0
        self.pending: deque[BatchState] = deque()
        self.ending = False
        self.ended = False
        self.chain = b""


class Group:
    """Sessions that share one slab.

    Attributes:
        number: its number; workers use it as the number of the stream.
        slab: number of its slab.
        slab_bytes: size of its slab.
        stream: its stream.
        record: the description of the stream that workers get.
        course: the steps of the members' rank.
        slot_bytes: size of a slot; it has room for the largest batch.
        slots: its slots.
        reserved: whether the memory of the slab is reserved.
        members: tokens of its sessions.
        run: the current run.
        open: batches with unclaimed rows, in order.
        queued: whether it is in the rotation.
        claims: number of its claims that have not ended.
        told: the workers that have its description.
        bare_deaths: workers in a row that died with claims of the group before they started one.
        bare_since: when the first of them died.
        stopped: the error with which its stream stopped for good.
        closing: whether its sessions are gone; it ends with its last claim.
    """

    __slots__ = (
        "bare_deaths", "bare_since", "claims", "closing", "course", "members", "number", "open",
        "queued", "record", "reserved", "run", "slab", "slab_bytes", "slot_bytes", "slots",
        "stopped", "stream", "told",
    )  # fmt: skip

    def __init__(
        self, slab: int, stream: Stream, record: OpenStream, course: Course, slots: int
    ) -> None:
        self.number = record.stream
        self.slab = slab
        self.slab_bytes = slots * record.layout.slot_bytes
        self.stream = stream
        self.record = record
        self.course = course
        self.slot_bytes = record.layout.slot_bytes
        self.slots = SlotPool(slots)
        self.reserved = False
        self.members: dict[bytes, None] = {}
        self.run: Run | None = None
        self.open: list[BatchState] = []
        self.queued = False
        self.claims = 0
        self.told: dict[int, None] = {}
        self.bare_deaths = 0
        self.bare_since = 0.0
        self.stopped: StokerError | None = None
        self.closing = False

    def crashed(self, epoch: int, step: int) -> tuple[int, ...]:
        """Return the samples that are replaced in a step of its run, ascending."""
        from_cursor = self.run.crashed if self.run is not None else frozenset()
        met = self.stream.crashed
        if not from_cursor and not met:
            return ()
        return tuple(
            sorted(from_cursor.union(n for n, since in met.items() if since <= (epoch, step)))
        )


Shapes = tuple[tuple[int, ...], ...]
"""The shape of a row in one batch, for each output whose shape READY carries."""


class Range(NamedTuple):
    """Rows [lo, hi) that are unclaimed; a whole one is never cut."""

    lo: int
    hi: int
    whole: bool = False


class BatchState:
    """One step of a run, being filled or waiting for its turn.

    Attributes:
        group: the group that the batch is for.
        cut: which rows of the global batch it has, and their layout in the slot.
        serial: its number in the run; batches are claimed and delivered in this order.
        unclaimed: number of rows in `ranges`.
        missing: number of rows that no claim has delivered.
        void: whether the batch is no longer wanted.
        failure: the error that it ends with; `failed_lo` is the first row of the failed claim.
        crashed: samples that are replaced in it because they crashed workers, ascending.
        outputs: the places of its outputs, for READY; None until a claim is done.
        digests: those of its rows, if the stream is verified.
    """

    __slots__ = (
        "_shapes", "crashed", "cut", "digests", "epoch", "failed_lo", "failure", "group", "missing",
        "outputs", "ranges", "serial", "slot", "step", "unclaimed", "void",
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
        self.digests = bytearray(self.cut.rows * ROW_DIGEST_BYTES * group.record.verify)

    def take(self, rows: int, unit: int = 1) -> tuple[int, int]:
        """Claim rows; returns [lo, hi).

        Args:
            rows: how many at most, except for the rest of a unit; a whole range is claimed
                entirely.
            unit: rows are cut only before a row whose number is a multiple of it.
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
        """Put rows of a lost claim back; they are claimed again before all others."""
        if self.failure is not None:
            ranges = [r for r in ranges if r.lo < self.failed_lo]
        self.ranges.extendleft(reversed(ranges))
        self.unclaimed += sum(r.hi - r.lo for r in ranges)

    def isolate(self, ranges: list[Range]) -> None:
        """Have these adjacent ranges claimed as they are; nothing may be claimed yet."""
        first, last = self.ranges[0].lo, self.ranges[0].hi
        parts = [Range(first, ranges[0].lo), *ranges, Range(ranges[-1].hi, last)]
        self.ranges = deque(part for part in parts if part.hi > part.lo)

    def fail(self, lo: int, failure: Error) -> None:
        """Record that the claim starting at row `lo` failed: only rows below it matter from now on.

        So the batch ends with the error of its first bad row, independent of timing.
        """
        if self.failure is None or lo < self.failed_lo:
            self.failure, self.failed_lo = failure, lo
            self.ranges = deque(r for r in self.ranges if r.lo < lo)
            self.unclaimed = sum(r.hi - r.lo for r in self.ranges)

    def tell_shapes(self, shapes: Shapes) -> None:
        """Set the shapes in which a finished claim wrote the rows of outputs that `is_told`.

        Raises:
            UsageError: the shapes do not fit the outputs, or differ from those of another claim.
        """
        if self.outputs is None:
            named = told_shapes(self.cut.outputs, shapes)
            self.outputs = list(batch_layout(self.cut.layout, named).outputs)
            self._shapes = shapes
        elif shapes != self._shapes:
            raise UsageError(
                f"two workers disagree on the shapes of a batch, {self._shapes} and {shapes}: its "
                "bytes cannot be trusted; report this with the pipeline",
                epoch=self.epoch,
                step=self.step,
            )

    def note_digests(self, lo: int, digests: bytes) -> None:
        """Keep the digests of the rows of a finished claim that starts at row `lo`."""
        start = (lo - self.cut.first_row) * ROW_DIGEST_BYTES
        self.digests[start : start + len(digests)] = digests

    @property
    def is_newest(self) -> bool:
        """Whether it is the last batch of its run so far, so that no other batch waits for it."""
        run = self.group.run
        return run is not None and bool(run.pending) and run.pending[-1] is self

    @property
    def settled(self) -> bool:
        """Whether none of its rows is claimed or unclaimed."""
        return not self.slot.writers and not self.unclaimed

    def drop(self) -> None:
        """Make it void: it is no longer wanted."""
        self.void = True
        self.ranges.clear()
        self.unclaimed = 0
