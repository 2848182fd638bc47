"""Groups and runs, as data: a slab, its slots, its sessions, and the run that fills the slots.

Sessions of a group are its members; this version makes groups of one member. A run is delivery from
one SEEK on; `delivery` moves it. To the workers a group is a stream: its number names rows, layout
and slab.
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
    """Delivery from one SEEK on.

    Attributes:
        number: the client's number of it.
        credits: announcements that the client still grants.
        epoch: epoch of the next step to begin.
        step: the next step to begin.
        begun: batches begun; the next one's serial.
        pending: batches that are begun and not announced, in order; never more than credits.
        ending: no step is begun any more, since one failed.
        ended: it delivers nothing more.
        crashed: samples that are replaced all along, as the client's cursor says.
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
        number: its number; workers know it as the number of the stream.
        slab: number of its slab.
        slab_bytes: size of its slab.
        stream: its stream.
        record: what a worker is told of it.
        course: what the members' rank is delivered, step by step.
        slot_bytes: size of a slot; it has room for the largest batch.
        slots: its slots.
        reserved: the memory of the slab is there.
        members: tokens of its sessions.
        run: the run that is delivered.
        open: batches with unclaimed rows, in order.
        queued: it stands in the rotation.
        claims: its claims that have not ended.
        told: the workers that were told of it.
        bare_deaths: workers that died in a row with its claims in hand and none begun.
        stopped: why its stream stopped for good.
        closing: its sessions are gone; it ends with its last claim.
    """

    __slots__ = (
        "bare_deaths", "claims", "closing", "course", "members", "number", "open", "queued",
        "record", "reserved", "run", "slab", "slab_bytes", "slot_bytes", "slots", "stopped",
        "stream", "told",
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
        self.stopped: StokerError | None = None
        self.closing = False

    def crashed(self, epoch: int, step: int) -> tuple[int, ...]:
        """Return the samples that are replaced in a step of its run, ascending."""
        told = self.run.crashed if self.run is not None else frozenset()
        met = self.stream.crashed
        if not told and not met:
            return ()
        return tuple(sorted(told.union(n for n, since in met.items() if since <= (epoch, step))))
