"""Groups, members, runs and batches, as data.

The members of a group are its sessions. A session that names no group is the only member of its
own. A cohort is what callers name as one group: one group for all members of a mirror, or a group
for each member of a fork (`forks`). A run is the delivery to one member that starts with its SEEK;
`group_delivery` drives it, and `sharing` decides which batches members share. For the workers a
group is a stream: its number identifies rows, layout and slab.

A `BatchState` is a batch that is being computed: its unclaimed rows, and the number of rows not yet
written. Rows are those of the global batch. `ranges` holds the unclaimed rows in the order in which
they will be claimed, rows that were lost with a worker first. A `whole` range is claimed alone and
in one piece: it is under suspicion, and a second death must show which row caused it.

Invariant: missing == unclaimed + (rows of claims that have not ended), until the batch is void or
has failed.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from stoker.protocol.chain import ROW_DIGEST_BYTES
from stoker.protocol.errors import StokerError, UsageError
from stoker.protocol.remote.shares import HostShare, Place
from stoker.protocol.request.stream_request import GroupRequest
from stoker.protocol.slot_layout import Placed, batch_layout, told_shapes
from stoker.server.state.core_context import Fault
from stoker.server.state.groups.group_slab import GroupSlab
from stoker.server.state.groups.slot_pool import Slot, SlotPool, SlotState
from stoker.server.state.groups.tally import Tally
from stoker.server.state.rank_steps import RankSteps
from stoker.server.state.served_streams import Stream
from stoker.server.state.stage_sums import Served
from stoker.server.work.work_records import OpenStream

BatchKey = tuple[int, int, tuple[int, ...]]
"""(epoch, step, samples that are replaced): batches with the same key have the same bytes."""


class Run:
    """The delivery to a member that starts with one SEEK.

    Attributes:
        number: the client's number for it.
        credits: number of announcements that the client still grants.
        window: number of the first credits, and so of the batches that the client has at a time.
        epoch: epoch of the next step to begin.
        step: the next step to begin.
        begun: number of batches begun for it, or shared with it.
        pending: batches that were begun and are not announced, in order; at most `credits +
            AHEAD_OF_CREDITS`, except in forks.
        ending: whether no more steps are begun, because one failed.
        ended: whether it delivers nothing more.
        crashed: samples that are replaced from its start on, from the client's cursor.
        chain: that of the announced batches, if the stream is verified.
        share: which batches it has, if several daemons make them; None: all.
    """

    __slots__ = (
        "begun", "chain", "crashed", "credits", "ended", "ending", "epoch", "number", "pending",
        "share", "step", "window",
    )  # fmt: skip

    def __init__(self, number: int, epoch: int, step: int, crashed: Iterable[int] = ()) -> None:
        self.number = number
        self.share: HostShare | None = None
        self.crashed = frozenset(crashed)
        self.credits = self.window = 0
        self.epoch = epoch
        self.step = step
        self.begun = 0
        self.pending: deque[BatchState] = deque()
        self.ending = False
        self.ended = False
        self.chain = b""

    @property
    def place(self) -> Place:
        """The (epoch, step) of the next batch to begin."""
        return self.epoch, self.step

    def advance(self, steps: Callable[[int], int]) -> None:
        """Go to the next step that it has; `steps` gives the number of steps of an epoch."""
        self.step += 1
        if self.step == steps(self.epoch):
            self.epoch, self.step = self.epoch + 1, 0
        if self.share is not None:
            self.epoch, self.step = self.share.first(self.epoch, self.step, steps)


class Member:
    """A session in its group.

    Attributes:
        token: the session's token.
        quota: slots that it brought, whose memory is there, and that it may use at a time.
        held: slots that were announced to it and that it has not released.
        run: its current run.
        tally: what it got, gave back and waited for.
    """

    __slots__ = ("held", "quota", "run", "tally", "token")

    def __init__(self, token: bytes, quota: int) -> None:
        self.token = token
        self.quota = quota
        self.held = 0
        self.run: Run | None = None
        self.tally = Tally()

    @property
    def place(self) -> Place:
        """The (epoch, step) of the next batch that it will ask for; the start before a SEEK."""
        return (0, 0) if self.run is None else self.run.place

    def will_ask_for(self, place: Place) -> bool:
        """Return whether it will ask this daemon for the batch of a place."""
        share = None if self.run is None else self.run.share
        return self.place <= place and (share is None or share.owner(*place) == share.host)

    @property
    def has_room(self) -> bool:
        """True if it may use one more slot."""
        pending = 0 if self.run is None else len(self.run.pending)
        return self.held + pending < self.quota


class Cohort:
    """The groups of one name and rank, which begin together.

    Trainings of a sweep are started one after the other, seconds apart, which is hundreds of
    batches. So a cohort may have a size: it computes nothing until as many members have sent SEEK.
    It begins without the others after a while, so that one that never comes costs the rest only
    that time. A member that comes after the begin waits for no other member. Nor does one that had
    begun at another daemon, because the others may have ended.

    Attributes:
        number: that of its first group, by which workers know it; 0: it is not a fork.
        size: how many members it waits for; 0 and 1: for none.
        since: time of the first SEEK; None before.
        waits: whether it waits for members.
        is_open: whether batches may be begun.
        groups: its groups.
        size_bytes: the memory of each worker for decoded samples; 0: they share none.
        usual_bytes: what a row of usual size needs of it.
    """

    __slots__ = (
        "groups", "is_open", "number", "since", "size", "size_bytes", "usual_bytes", "waits",
    )  # fmt: skip

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.since: float | None = None
        self.waits = size > 1
        self.is_open = not self.waits
        self.groups: list[Group] = []
        self.size_bytes = 0
        self.usual_bytes = 0

    @property
    def seekers(self) -> int:
        """Number of members that have sent SEEK."""
        return sum(len(group.runs) for group in self.groups if not group.closing)

    def begins(self, now: float, wait_s: float) -> bool:
        """Open it if it is time; return whether it was opened.

        Args:
            now: the time.
            wait_s: for how long the first member waits.
        """
        if self.is_open or not self.seekers:
            return False
        self.since = now if self.since is None else self.since
        late = now - self.since >= wait_s
        self.is_open = late or self.seekers >= self.size or not self.waits
        return self.is_open

    @property
    def most_rows(self) -> int:
        """The most rows of a chunk, so that their samples fit into the memory; some are larger."""
        return max(self.size_bytes * 3 // 4 // max(self.usual_bytes, 1), 1)


class Group:
    """Sessions that share one slab.

    Attributes:
        number: its number; workers use it as the number of the stream.
        name: the name that its sessions gave; empty for a session of its own.
        slab: its memory.
        stream: its stream.
        record: the description of the stream that workers get.
        steps: the steps of the members' rank.
        members: its sessions, by token.
        cohort: the groups that it begins with, itself too.
        departed: sessions that ended while their clients may live -> slots that these may read.
        begun: number of batches begun, which is the serial of the next one.
        by_place: batches that sessions can share.
        by_slot: batches that are wanted, leased or kept, by the number of their slot.
        under_way: number of batches that a run waits for.
        open: batches with unclaimed rows, in order.
        starved: whether a member with room got no slot; the next one that is free is for it.
        in_rotation: whether workers will be given its rows.
        workers: those that have its description.
        bare_deaths: workers in a row that died with claims of the group before they started one.
        bare_since: when the first of them died.
        stopped: the error with which its stream stopped for good.
        hosts: addresses of the daemons that its members read from, as in `GroupRequest`.
        served: names under which the times of its rows are summed, one for each source.
    """

    __slots__ = (
        "bare_deaths", "bare_since", "begun", "by_place", "by_slot", "cohort", "departed", "hosts",
        "in_rotation", "members", "name", "number", "open", "record", "served", "slab", "starved",
        "steps", "stopped", "stream", "under_way", "workers",
    )  # fmt: skip

    def __init__(
        self,
        stream: Stream,
        record: OpenStream,
        steps: RankSteps,
        slab: GroupSlab,
        cohort: Cohort,
        asked: GroupRequest | None,
        served: tuple[Served, ...] = (),
    ) -> None:
        """Describe a group without members.

        Args:
            stream: its stream.
            record: its description, with the group's number.
            steps: of the rank.
            slab: its memory.
            cohort: the groups that it begins with.
            asked: the group that its first member wants; None: one of its own.
            served: see above.
        """
        self.number = record.stream
        self.name = "" if asked is None else asked.name
        self.hosts = () if asked is None else asked.hosts
        self.served = served
        self.stream = stream
        self.record = record
        self.steps = steps
        self.slab = slab
        slab.slots.after = self._after
        self.members: dict[bytes, Member] = {}
        self.cohort = cohort
        cohort.groups.append(self)
        self.departed: dict[bytes, int] = {}
        self.begun = 0
        self.by_place: dict[BatchKey, BatchState] = {}
        self.by_slot: dict[int, BatchState] = {}
        self.under_way = 0
        self.open: list[BatchState] = []
        self.starved = False
        self.in_rotation = False
        self.workers: dict[int, None] = {}
        self.bare_deaths = 0
        self.bare_since = 0.0
        self.stopped: StokerError | None = None

    @property
    def slots(self) -> SlotPool:
        """The slots of its slab."""
        return self.slab.slots

    @property
    def closing(self) -> bool:
        """True if its sessions are gone; it ends with its last claim."""
        return self.slab.closing

    @property
    def is_mirror(self) -> bool:
        """True if its members share slots, which each of them may only read."""
        return bool(self.name) and not self.record.fork

    @property
    def together(self) -> list["Group"]:
        """The group and those of other members of a fork; one that is not in a fork is alone."""
        if self.closing:
            return [self]
        others = (one for one in self.cohort.groups if one is not self and not one.closing)
        return [self, *others]

    @property
    def claims(self) -> int:
        """Claims on its slots that have not ended."""
        return sum(slot.writers for slot in self.slots.slots)

    @property
    def runs(self) -> list[Run]:
        """The current runs of its members."""
        return [member.run for member in self.members.values() if member.run is not None]

    def crashed(self, run: Run, epoch: int, step: int) -> tuple[int, ...]:
        """Return the samples that are replaced in a step of a run, ascending."""
        from_cursor, met = run.crashed, self.stream.crashed
        if not from_cursor and not met:
            return ()
        return tuple(
            sorted(from_cursor.union(n for n, since in met.items() if since <= (epoch, step)))
        )

    def begin(self, place: Place, crashed: tuple[int, ...], slot: Slot) -> "BatchState":
        """Begin to fill a slot with a batch."""
        batch = BatchState(self, self.begun, place, crashed, slot)
        self.begun += 1
        self.by_place[batch.key] = self.by_slot[slot.index] = batch
        self.open.append(batch)
        return batch

    def unlist(self, batch: "BatchState") -> None:
        """Share a batch no longer with sessions that do not wait for it yet."""
        if self.by_place.get(batch.key) is batch:
            del self.by_place[batch.key]

    def forget(self, batch: "BatchState") -> None:
        """Forget a batch, whose slot will have another use."""
        self.unlist(batch)
        if self.by_slot.get(batch.slot.index) is batch:
            del self.by_slot[batch.slot.index]

    def is_awaited(self, batch: "BatchState") -> bool:
        """Return whether a member that did not get a batch will ask for it later."""
        if not self.is_mirror or self.by_place.get(batch.key) is not batch:
            return False
        return any(
            member.will_ask_for(batch.place) and member.token not in batch.had
            for member in self.members.values()
        )

    def _after(self, slot: Slot) -> SlotState:
        """Return what a complete slot without holders becomes."""
        batch = self.by_slot.get(slot.index)
        if batch is None:
            return SlotState.FREE
        if batch.runs:
            return SlotState.READY
        if self.is_awaited(batch):
            return SlotState.KEPT
        self.forget(batch)
        return SlotState.FREE


Shapes = tuple[tuple[int, ...], ...]
"""The shape of a row in one batch, for each output whose shape READY carries."""


class Range(NamedTuple):
    """Rows [lo, hi) that are unclaimed; a whole one is never cut."""

    lo: int
    hi: int
    whole: bool = False


class BatchState:
    """One step, being filled, waiting for its turn, leased or kept.

    Attributes:
        group: the group that the batch is for.
        runs: the runs that wait for it.
        had: tokens of the sessions that it was announced to.
        cut: which rows of the global batch it has, and their layout in the slot.
        serial: its number in the group; batches are claimed in this order.
        unclaimed: number of rows in `ranges`.
        missing: number of rows that no claim has delivered.
        void: whether the batch is no longer wanted.
        failure: the error that it ends with, in wire form; `failed_lo` is the first row of the
            failed claim.
        crashed: samples that are replaced in it because they crashed workers, ascending.
        outputs: the places of its outputs, for READY; None until a claim is done.
        digests: those of its rows, if the stream is verified.
    """

    __slots__ = (
        "_shapes", "crashed", "cut", "digests", "epoch", "failed_lo", "failure", "group", "had",
        "missing", "outputs", "ranges", "runs", "serial", "slot", "step", "unclaimed", "void",
    )  # fmt: skip

    def __init__(
        self, group: "Group", serial: int, place: Place, crashed: tuple[int, ...], slot: Slot
    ) -> None:
        self.group = group
        self.runs: list[Run] = []
        self.had: set[bytes] = set()
        self.serial = serial
        self.epoch, self.step = place
        self.slot = slot
        self.cut = group.steps.cut(*place)
        self.missing = self.unclaimed = self.cut.rows
        self.ranges = deque([Range(self.cut.first_row, self.cut.first_row + self.cut.rows)])
        self.crashed = crashed
        self.void = False
        self.failure: Fault | None = None
        self.failed_lo = 0
        self.outputs: list[Placed] | None = None
        self._shapes: Shapes = ()
        self.digests = bytearray(self.cut.rows * ROW_DIGEST_BYTES * group.record.verify)

    @property
    def place(self) -> Place:
        """Its (epoch, step)."""
        return self.epoch, self.step

    @property
    def key(self) -> BatchKey:
        """Everything that its bytes depend on, besides the stream."""
        return self.epoch, self.step, self.crashed

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
        """Have these adjacent ranges claimed as they are, if wanted; nothing may be claimed yet."""
        first, last = self.ranges[0].lo, self.ranges[0].hi
        if ranges[0].lo < last:  # otherwise they are above a failed claim
            parts = [Range(first, ranges[0].lo), *ranges, Range(ranges[-1].hi, last)]
            self.ranges = deque(part for part in parts if part.hi > part.lo)

    def fail(self, lo: int, failure: Fault) -> None:
        """Record that the claim starting at row `lo` failed: only rows below it matter from now on.

        So the batch ends with the error of its first bad row, independent of timing.
        """
        if self.failure is None or lo < self.failed_lo:
            self.failure, self.failed_lo = failure, lo
            self.ranges = deque(r._replace(hi=min(r.hi, lo)) for r in self.ranges if r.lo < lo)
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
        """True if it is the last batch of its runs so far, so that no other batch waits for it."""
        return bool(self.runs) and all(run.pending[-1] is self for run in self.runs)

    @property
    def settled(self) -> bool:
        """True if none of its rows is claimed or unclaimed."""
        return not self.slot.writers and not self.unclaimed

    def drop(self) -> None:
        """Make it void: it is no longer wanted."""
        self.void = True
        self.ranges.clear()
        self.unclaimed = 0
