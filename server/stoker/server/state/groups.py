"""Groups and runs, as data: a slab, its slots, its sessions, and the run that fills the slots.

The members of a group are its sessions; this version makes groups of one member. A run is the
delivery that starts with one SEEK; `delivery` drives it. For the workers a group is a stream: its
number identifies rows, layout and slab.
"""

from collections import deque
from collections.abc import Iterable

from stoker.protocol.errors import StokerError
from stoker.server.state.batches import BatchState
from stoker.server.state.course import Course
from stoker.server.state.slots import SlotPool
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
    """

    __slots__ = (
        "begun",
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
