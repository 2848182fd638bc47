"""Input of the core, as data. `now` is monotonic time in seconds.

A session is named by its token; a peer that has no token yet is named by its routing id `peer`.
"""

from dataclasses import dataclass

from stoker.protocol.errors import Detail
from stoker.protocol.messages import ClientRecord, Hello
from stoker.server.work.records import BuildResult, Done


@dataclass(frozen=True)
class Event:
    """Base of all events."""

    now: float


@dataclass(frozen=True)
class Greeted(Event):
    """A peer sent HELLO; `token` is fresh randomness for its session, if it gets one.

    `process` names the peer's process; peers of one process share what one peer may have.
    """

    peer: bytes
    token: bytes
    hello: Hello
    process: str = ""


@dataclass(frozen=True)
class Received(Event):
    """A session sent records; the broker has checked the token."""

    token: bytes
    records: tuple[ClientRecord, ...]


@dataclass(frozen=True)
class LifelineUp(Event):
    """A peer with acceptable credentials attached to the side socket with this token."""

    token: bytes


@dataclass(frozen=True)
class LifelineDown(Event):
    """The lifeline closed: the client is dead, gone or done; or the daemon closed it."""

    token: bytes
    by_daemon: bool = False


@dataclass(frozen=True)
class Built(Event):
    """A build succeeded."""

    result: BuildResult


@dataclass(frozen=True)
class BuildFailed(Event):
    """A build failed; the error in wire form."""

    build: int
    code: str
    message: str
    details: dict[str, Detail]


@dataclass(frozen=True)
class BuildProgress(Event):
    """A build has made progress, or compiles; it has `done` of `total` functions."""

    build: int
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class BuildDied(Event):
    """The process of a build was killed from outside; `reason` says how."""

    build: int
    reason: str


@dataclass(frozen=True)
class ReplayEnded(Event):
    """A replay is finished; its bytes are kept for SendReplay or DropReplay."""

    replay: int
    size_bytes: int


@dataclass(frozen=True)
class ReplayFailed(Event):
    """A replay failed; the error in wire form."""

    replay: int
    code: str
    message: str
    details: dict[str, Detail]


@dataclass(frozen=True)
class SlabReserved(Event):
    """The first memory of a slab, or that of a growth, is reserved."""

    slab: int


@dataclass(frozen=True)
class SlabRefused(Event):
    """The kernel refused the memory of a slab; `reason` has the numbers."""

    slab: int
    reason: str


@dataclass(frozen=True)
class WorkerUp(Event):
    """A worker reported that it is ready."""

    worker: int
    pid: int


@dataclass(frozen=True)
class WorkerDown(Event):
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


@dataclass(frozen=True)
class WorkerBusy(Event):
    """A worker begins to compile or still compiles; or it has ended."""

    worker: int
    compiling: bool


@dataclass(frozen=True)
class KernelsUnstored(Event):
    """A process compiled kernels that could not be stored; `reason` says why."""

    reason: str


@dataclass(frozen=True)
class ChunkDone(Event):
    """A worker finished a chunk."""

    worker: int
    done: Done


@dataclass(frozen=True)
class ChunkFailed(Event):
    """A worker could not do a chunk (`claim`) or open a stream (`claim` 0); error in wire form."""

    worker: int
    claim: int
    stream: int
    code: str
    message: str
    details: dict[str, Detail]


@dataclass(frozen=True)
class Recalled(Event):
    """A chunk was taken back; its worker will never see it."""

    worker: int
    claim: int


@dataclass(frozen=True)
class Tick(Event):
    """Time passed; occurs at least every half second."""


@dataclass(frozen=True)
class StopAsked(Event):
    """SIGTERM or SIGINT: first drain; the second time, stop at once."""

    at_once: bool
