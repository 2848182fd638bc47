"""Output of the core, as data. The daemon carries it out in order, without waiting."""

import msgspec

from stoker.protocol.messages import DaemonRecord
from stoker.server.work.work_records import BadSample, BuildRequest, OpenStream, ReplayRequest, Work


class Instruction(msgspec.Struct, frozen=True):
    """Base of all instructions."""


class Send(Instruction, frozen=True):
    """Send records to a session."""

    token: bytes
    records: tuple[DaemonRecord, ...]


class SendPeer(Instruction, frozen=True):
    """Send records to a peer that is not (yet) a session: WELCOME or an error.

    With `token` set, the peer becomes that session from now on; `certificate` is what it sent.
    """

    peer: bytes
    records: tuple[DaemonRecord, ...]
    token: bytes = b""
    certificate: bytes = b""


class SendSlab(Instruction, frozen=True):
    """Pass a slab's descriptor to a session over its lifeline."""

    token: bytes
    slab: int
    slots: int
    slot_bytes: int
    writable: bool


class EndSession(Instruction, frozen=True):
    """Forget the token and close its lifeline."""

    token: bytes


class StartBuild(Instruction, frozen=True):
    """Run a one-off builder; answered by Built, BuildFailed or BuildDied."""

    request: BuildRequest


class EndBuild(Instruction, frozen=True):
    """End the process of a build; answered by BuildFailed with what it was doing."""

    build: int
    reason: str


class StartReplay(Instruction, frozen=True):
    """Run a one-off replayer; answered by ReplayEnded or ReplayFailed."""

    request: ReplayRequest


class SendReplay(Instruction, frozen=True):
    """Pass a replay's descriptor to a session over its lifeline, and forget the replay."""

    token: bytes
    replay: int
    request: int
    size_bytes: int


class DropReplay(Instruction, frozen=True):
    """Drop a replay that is no longer wanted: end its process, free its memory."""

    replay: int


class CompileDecoder(Instruction, frozen=True):
    """Compile a form of Stoker's own decoder; answered by DecoderReady or DecoderFailed."""

    form: int


class EndDecoder(Instruction, frozen=True):
    """End the compiler of the decoder; answered by DecoderFailed with what it was doing."""

    reason: str


class TellDecoder(Instruction, frozen=True):
    """Tell a worker that a form of the decoder is compiled."""

    worker: int
    form: int


class ReserveSlab(Instruction, frozen=True):
    """Reserve the first memory of a slab; answered by SlabReserved or SlabRefused.

    The slab has room for `capacity_bytes`; what is beyond `size_bytes` has no memory yet. It is
    refused if there is no room for `needed_bytes`, which includes a growth that follows.
    """

    slab: int
    size_bytes: int
    capacity_bytes: int
    needed_bytes: int


class GrowSlab(Instruction, frozen=True):
    """Reserve the memory of further slots; answered by SlabReserved or SlabRefused."""

    slab: int
    slots: tuple[int, ...]
    slot_bytes: int


class ShrinkSlab(Instruction, frozen=True):
    """Free the memory of slots; the slab keeps its size."""

    slab: int
    slots: tuple[int, ...]
    slot_bytes: int


class FreeSlab(Instruction, frozen=True):
    """Free a slab's memory."""

    slab: int


class Quarantine(Instruction, frozen=True):
    """Write bad samples of the dataset with that fingerprint to its quarantine file."""

    dataset: str
    bad: tuple[BadSample, ...]


class StartWorker(Instruction, frozen=True):
    """Start a worker with that number; answered by WorkerUp or WorkerDown."""

    worker: int


class KillWorker(Instruction, frozen=True):
    """Kill a worker (SIGKILL); answered by WorkerDown."""

    worker: int
    reason: str


class TellStream(Instruction, frozen=True):
    """Send a worker the description of a stream and the slab that it writes to."""

    worker: int
    stream: OpenStream
    slab: int
    slab_bytes: int


class ForgetStream(Instruction, frozen=True):
    """Make a worker forget a stream and unmap its slab."""

    worker: int
    stream: int
    slab: int


class Assign(Instruction, frozen=True):
    """Give a worker chunks, in this order."""

    worker: int
    work: tuple[Work, ...]


class Recall(Instruction, frozen=True):
    """Take a chunk back from a worker; answered by Recalled if it had not started it."""

    worker: int
    claim: int


class Log(Instruction, frozen=True):
    """Write one structured log line.

    `limited`: clients can cause any number of these, so only some are written.
    """

    level: str
    event: str
    facts: dict[str, object] = {}
    limited: bool = False


class Exit(Instruction, frozen=True):
    """Leave the loop; all sessions have been closed."""

    code: int
