"""Input of the core, as data. `now` is monotonic time in seconds.

A session is named by its token; a peer that has no token yet is named by its routing id `peer`.
"""

from collections.abc import Mapping

import msgspec

from stoker.protocol.errors import Detail
from stoker.protocol.messages import ClientRecord, Hello
from stoker.server.state.clients import Client
from stoker.server.work.work_records import BuildResult, Done


class Event(msgspec.Struct, frozen=True):
    """Base of all events."""

    now: float


class Greeted(Event, frozen=True):
    """A peer sent HELLO; `token` is fresh randomness for its session, if it gets one.

    `process` names the peer's process; peers of one process share what one peer may have. `client`
    is what the daemon knows of it; None: only what HELLO says.
    """

    peer: bytes
    token: bytes
    hello: Hello
    process: str = ""
    client: Client | None = None


class Received(Event, frozen=True):
    """A session sent records; the broker has checked the token."""

    token: bytes
    records: tuple[ClientRecord, ...]


class LifelineUp(Event, frozen=True):
    """A peer with acceptable credentials attached to the side socket with this token."""

    token: bytes


class LifelineDown(Event, frozen=True):
    """The lifeline closed: the client is dead, gone or done; or the daemon closed it."""

    token: bytes
    by_daemon: bool = False


class Built(Event, frozen=True):
    """A build succeeded."""

    result: BuildResult


class BuildFailed(Event, frozen=True):
    """A build failed; the error in wire form."""

    build: int
    code: str
    message: str
    details: dict[str, Detail]


class BuildProgress(Event, frozen=True):
    """A build has made progress, or compiles; it has `done` of `total` functions."""

    build: int
    done: int = 0
    total: int = 0


class BuildDied(Event, frozen=True):
    """The process of a build was killed from outside; `reason` says how."""

    build: int
    reason: str


class ReplayEnded(Event, frozen=True):
    """A replay is finished; its bytes are kept for SendReplay or DropReplay."""

    replay: int
    size_bytes: int


class ReplayFailed(Event, frozen=True):
    """A replay failed; the error in wire form."""

    replay: int
    code: str
    message: str
    details: dict[str, Detail]


class DecoderReady(Event, frozen=True):
    """Stoker's own decoder of JPEGs is in the cache of kernels."""


class DecoderFailed(Event, frozen=True):
    """It could not be compiled; or (`died`) the process that compiled it died."""

    reason: str
    died: bool


class DecoderProgress(Event, frozen=True):
    """Its compiler makes progress."""


class DecoderMissed(Event, frozen=True):
    """A worker was told that it is compiled, and did not find it in the cache of kernels."""

    worker: int


class SlabReserved(Event, frozen=True):
    """The first memory of a slab, or that of a growth, is reserved."""

    slab: int


class SlabRefused(Event, frozen=True):
    """The kernel refused the memory of a slab; `reason` has the numbers."""

    slab: int
    reason: str


class WorkerUp(Event, frozen=True):
    """A worker reported that it is ready."""

    worker: int
    pid: int


class WorkerDown(Event, frozen=True):
    """A worker is confirmed dead.

    `reason` says how ("signal 9", "exit code 1"). `blame` is False if the death says nothing about
    the sample (SIGKILL or SIGTERM from outside). `row` is the row of the global batch that it was
    computing, of claim `claim`, if it had started one, and `sample` the sample that it read for it.
    `state` is the letter that Linux gives the state of the process when the daemon killed it: "R"
    runs, "S" waits, "D" waits and cannot be interrupted, "T" and "t" are stopped.
    """

    worker: int
    reason: str
    blame: bool
    claim: int | None = None
    row: int | None = None
    sample: int | None = None
    state: str = ""


class WorkerBusy(Event, frozen=True):
    """A worker begins to compile or still compiles; or it has ended."""

    worker: int
    compiling: bool


class KernelsUnstored(Event, frozen=True):
    """A process compiled kernels that could not be stored; `reason` says why."""

    reason: str


class ChunkDone(Event, frozen=True):
    """A worker finished a chunk."""

    worker: int
    done: Done


class ChunkFailed(Event, frozen=True):
    """A worker could not do a chunk (`claim`) or open a stream (`claim` 0); error in wire form."""

    worker: int
    claim: int
    stream: int
    code: str
    message: str
    details: dict[str, Detail]


class Recalled(Event, frozen=True):
    """A chunk was taken back; its worker will never see it."""

    worker: int
    claim: int


class Tick(Event, frozen=True):
    """Time passed; occurs at least every half second."""


class NamesChanged(Event, frozen=True):
    """The operator's names are others now, by name as in the settings; open streams stay."""

    datasets: Mapping[str, str]
    pipelines: Mapping[str, str]


class StopAsked(Event, frozen=True):
    """SIGTERM or SIGINT: first drain; the second time, stop at once."""

    at_once: bool
