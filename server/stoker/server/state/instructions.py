"""Output of the core, as data. The daemon carries it out in order, without waiting."""

from dataclasses import dataclass, field

from stoker.protocol.messages import DaemonRecord
from stoker.server.work.records import BadSample, BuildRequest, OpenStream, ReplayRequest, Work


@dataclass(frozen=True)
class Instruction:
    """Base of all instructions."""


@dataclass(frozen=True)
class Send(Instruction):
    """Send records to a session."""

    token: bytes
    records: tuple[DaemonRecord, ...]


@dataclass(frozen=True)
class SendPeer(Instruction):
    """Send records to a peer that is not (yet) a session: WELCOME or an error.

    With `token` set, the peer becomes that session from now on; `certificate` is what it sent.
    """

    peer: bytes
    records: tuple[DaemonRecord, ...]
    token: bytes = b""
    certificate: bytes = b""


@dataclass(frozen=True)
class SendSlab(Instruction):
    """Pass a slab's descriptor to a session over its lifeline."""

    token: bytes
    slab: int
    slots: int
    slot_bytes: int
    writable: bool


@dataclass(frozen=True)
class EndSession(Instruction):
    """Forget the token and close its lifeline."""

    token: bytes


@dataclass(frozen=True)
class StartBuild(Instruction):
    """Run a one-off builder; answered by Built, BuildFailed or BuildDied."""

    request: BuildRequest


@dataclass(frozen=True)
class EndBuild(Instruction):
    """End the process of a build; answered by BuildFailed with what it was doing."""

    build: int
    reason: str


@dataclass(frozen=True)
class StartReplay(Instruction):
    """Run a one-off replayer; answered by ReplayEnded or ReplayFailed."""

    request: ReplayRequest


@dataclass(frozen=True)
class SendReplay(Instruction):
    """Pass a replay's descriptor to a session over its lifeline, and forget the replay."""

    token: bytes
    replay: int
    request: int
    size_bytes: int


@dataclass(frozen=True)
class DropReplay(Instruction):
    """Drop a replay that is no longer wanted: end its process, free its memory."""

    replay: int


@dataclass(frozen=True)
class ReserveSlab(Instruction):
    """Reserve the first memory of a slab; answered by SlabReserved or SlabRefused.

    The slab has room for `capacity_bytes`; what is beyond `size_bytes` has no memory yet. It is
    refused if there is no room for `needed_bytes`, which includes a growth that follows.
    """

    slab: int
    size_bytes: int
    capacity_bytes: int
    needed_bytes: int


@dataclass(frozen=True)
class GrowSlab(Instruction):
    """Reserve the memory of further slots; answered by SlabReserved or SlabRefused."""

    slab: int
    slots: tuple[int, ...]
    slot_bytes: int


@dataclass(frozen=True)
class ShrinkSlab(Instruction):
    """Free the memory of slots; the slab keeps its size."""

    slab: int
    slots: tuple[int, ...]
    slot_bytes: int


@dataclass(frozen=True)
class FreeSlab(Instruction):
    """Free a slab's memory."""

    slab: int


@dataclass(frozen=True)
class Quarantine(Instruction):
    """Write bad samples of the dataset with that fingerprint to its quarantine file."""

    dataset: str
    bad: tuple[BadSample, ...]


@dataclass(frozen=True)
class StartWorker(Instruction):
    """Start a worker with that number; answered by WorkerUp or WorkerDown."""

    worker: int


@dataclass(frozen=True)
class KillWorker(Instruction):
    """Kill a worker (SIGKILL); answered by WorkerDown."""

    worker: int
    reason: str


@dataclass(frozen=True)
class TellStream(Instruction):
    """Send a worker the description of a stream and the slab that it writes to."""

    worker: int
    stream: OpenStream
    slab: int
    slab_bytes: int


@dataclass(frozen=True)
class ForgetStream(Instruction):
    """Make a worker forget a stream and unmap its slab."""

    worker: int
    stream: int
    slab: int


@dataclass(frozen=True)
class Assign(Instruction):
    """Give a worker chunks, in this order."""

    worker: int
    work: tuple[Work, ...]


@dataclass(frozen=True)
class Recall(Instruction):
    """Take a chunk back from a worker; answered by Recalled if it had not started it."""

    worker: int
    claim: int


@dataclass(frozen=True)
class Log(Instruction):
    """Write one structured log line.

    `limited`: clients can cause any number of these, so only some are written.
    """

    level: str
    event: str
    facts: dict[str, object] = field(default_factory=dict)
    limited: bool = False


@dataclass(frozen=True)
class Exit(Instruction):
    """Leave the loop; all sessions have been closed."""

    code: int
