"""The records on the wire, version 1: what a client and the daemon send to each other.

Each record is a msgpack array whose first element is its tag; the fields follow in the order below.
Fields are appended, never renumbered, retyped or removed; a new field has a default; a reader
ignores unknown trailing fields. What OPEN asks for is in records of its own, see
`stoker.protocol.request.stream_request`. Bounds are part of the type: a record out of bounds is
rejected as a whole. docs/protocol.md has the tables, the diagrams and the vectors; a test compares
them with this module.

An envelope is `[WIRE, token, [record, ...]]`: one ZeroMQ message carries many records. The token
names the session (empty before WELCOME); ZeroMQ routing ids identify no session.
"""

from typing import Annotated, Any, Literal

import msgspec

from stoker.protocol.chain import CHAIN_BYTES, MAX_VERIFIED_ROWS, ROW_DIGEST_BYTES
from stoker.protocol.cursor import MAX_CRASHED
from stoker.protocol.draw_records import MAX_DRAWN, Drawn
from stoker.protocol.request.argument_checks import MAX_LABEL
from stoker.protocol.request.stream_request import (
    MAX_HOSTS,
    MAX_SOURCES,
    DeliveryRequest,
    Name,
    StreamRequest,
)
from stoker.protocol.size_buckets import MAX_BUCKETS, Bucket, Leftovers
from stoker.protocol.slot_layout import Output, Placed

MAX_CLASSES = 2**16
MAX_STAGES = 65
"""In STATUS, stages of a pipeline, and pipelines that have some."""
MAX_RANKS = 2**20
MAX_WORKERS = 256
"""Of workers in STATUS."""
MAX_CLASS_BYTES = 2**20
"""Of all names of classes in OPENED; the fields that do not fit are left out."""
MAX_LISTED = 1024
"""Of sessions, and of names, in STATUS; so that it always fits into a message."""
Text = Annotated[str, msgspec.Meta(max_length=16384)]
Label = Annotated[str, msgspec.Meta(max_length=MAX_LABEL)]
Hex32 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{32}\Z")]
Token = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**48)]
Small = Annotated[int, msgspec.Meta(ge=0, le=2**24)]
Key = Annotated[int, msgspec.Meta(ge=0)]
CrashedIds = Annotated[list[Count], msgspec.Meta(max_length=MAX_CRASHED)]
Classes = Annotated[list[Text], msgspec.Meta(max_length=MAX_CLASSES)]
HostKeys = Annotated[list[Key], msgspec.Meta(max_length=MAX_HOSTS)]
JobKey = Annotated[bytes, msgspec.Meta(max_length=16)]
Names = Annotated[list[Name], msgspec.Meta(max_length=MAX_LISTED)]
PRIVATE_PIPELINE = "private"
"""The name of each pipeline that a client sends, in StageTimes."""
SessionState = Literal["greeted", "attached", "opening", "open"]
WorkerDoes = Literal[
    "starting", "idle", "opening", "compiling", "read", "decode", "op", "write", "other", "ending"
]
Certificate = Annotated[bytes, msgspec.Meta(max_length=2048)]


class Record(msgspec.Struct, frozen=True, array_like=True):
    """Base of all records."""


# ---------------------------------------------------------------- client -> daemon


class Hello(Record, frozen=True, tag="hello"):
    """First record of a client: the wire versions that it supports.

    `certificate` is what its carrier has to show, if the daemon has keys; see
    `stoker.protocol.remote.tls`. `name` is what the caller calls its training. `host`, `pid` and
    `user` say whose process it is, for logs; the daemon believes none of them.
    """

    wire_min: Small
    wire_max: Small
    client: Name
    certificate: Certificate = b""
    name: Label = ""
    host: Name = ""
    pid: Count = 0
    user: Name = ""


class Open(Record, frozen=True, tag="open"):
    """Ask for a stream; answered by OPENED or ERROR with the same `request`.

    The session gets the rows of `rank` among `world_size`. Sessions that send the same `job`, 16
    bytes, are the ranks of one job, and must open the same stream; empty: this is compared with no
    other session.
    """

    request: Small
    stream: StreamRequest
    delivery: DeliveryRequest
    rank: Small = 0
    world_size: Annotated[int, msgspec.Meta(ge=1, le=MAX_RANKS)] = 1
    job: JobKey = b""


class Seek(Record, frozen=True, tag="seek"):
    """Begin delivery at a place; earlier announcements become void, credits restart at zero.

    `run` increases with every SEEK of a session. Delivery continues across epochs. `crashed` are
    the samples that the client's cursor lists as replaced because they crashed workers. With
    `hosts`, the keys of several daemons, the run has only the batches of number `host` among them;
    see `stoker.protocol.remote.shares`.
    """

    run: Count
    epoch: Count
    step: Count
    crashed: CrashedIds = msgspec.field(default_factory=list)
    hosts: HostKeys = msgspec.field(default_factory=list)
    host: Small = 0


class Credit(Record, frozen=True, tag="credit"):
    """Grant that many further announcements to the run."""

    run: Count
    batches: Small


class Release(Record, frozen=True, tag="release"):
    """Return slots: pairs of (slot, generation). Stale pairs are ignored."""

    slots: Annotated[list[tuple[Small, Count]], msgspec.Meta(max_length=4096)]


class Close(Record, frozen=True, tag="close"):
    """End the session; its slots are free at once."""


class AskStatus(Record, frozen=True, tag="ask_status"):
    """Ask for STATUS; with `sessions` also for the sessions, names and facts of the daemon."""

    sessions: bool = False


class SetWorkers(Record, frozen=True, tag="set_workers"):
    """Ask for another number of workers, from 1 to that of the configuration.

    Answered by STATUS as it is then, or ERROR. Only a client on the daemon's host, of its user or
    root, may ask. No byte of a stream depends on it. It lasts until the daemon ends.
    """

    workers: Small


class AskReplay(Record, frozen=True, tag="ask_replay"):
    """Ask for a replay of a sample; answered by REPLAYED or ERROR with `request`.

    Seed and freezes are those of the open stream. A session may have one replay at a time. With
    `stored` nothing is computed: the answer has the fields that the pipeline reads, and `id` is a
    place among the samples that the stream visits, ascending.
    """

    request: Small
    id: Count
    epoch: Count
    visit: Count
    view: Annotated[int, msgspec.Meta(ge=0, le=2**16 - 2)]
    stored: bool = False


# ---------------------------------------------------------------- daemon -> client


class Welcome(Record, frozen=True, tag="welcome"):
    """Answer to HELLO: the session's token, good for one connection to the side socket.

    `certificate` is the one of the daemon's carriers, if it has keys.
    """

    wire: Small
    token: Token
    daemon: Name
    certificate: Certificate = b""


class Building(Record, frozen=True, tag="building"):
    """The pipeline of a pending OPEN is not built yet; sent only if `progress` asked for it.

    `done` of its `total` functions are compiled or were found compiled. Both are 0 as long as the
    number is not known: the build waits for others, or the pipeline is being traced. The total
    grows if the build finds more functions.
    """

    request: Small
    done: Small
    total: Small


class Opened(Record, frozen=True, tag="opened"):
    """The stream is open: the full StreamSpec, and the layout of its batches in memory.

    `rows` is the number of rows of this rank in a batch, `first_row` the first of them in the
    global batch. The slab of number `slab` comes as a descriptor over the side socket.

    With `buckets`, the sizes of the plan, `steps` is that of epoch 0, `rows` and `first_row` are
    those of the largest batch, and `outputs` have room for every bucket. `leftovers` is the
    request's. `merged` samples are in another bucket than the rule chose for them.

    `notes` are lines for the client's log: the stream works, but the operator should know.
    `classes` are the names of the classes 0, 1, ... of the dataset's fields, by field; fields whose
    names are too long together are missing. `prefetch` is the number of credits that the client may
    have granted at a time; 0 is that of the request.

    `crash_policy` and `integrity` are settings of the daemon that may decide what a row shows whose
    sample is bad.
    """

    request: Small
    spec: Annotated[dict[Name, Any], msgspec.Meta(max_length=64)]
    stream: Hex32
    steps: Count
    rows: Small
    first_row: Count
    slab: Count
    slots: Small
    slot_bytes: Count
    outputs: Annotated[list[Output], msgspec.Meta(max_length=256)]
    drawn: Annotated[list[Drawn], msgspec.Meta(max_length=MAX_DRAWN)] = msgspec.field(
        default_factory=list
    )
    buckets: Annotated[list[Bucket], msgspec.Meta(max_length=MAX_BUCKETS)] = msgspec.field(
        default_factory=list
    )
    leftovers: Leftovers = "carry"
    merged: Count = 0
    notes: Annotated[list[Text], msgspec.Meta(max_length=16)] = msgspec.field(default_factory=list)
    classes: Annotated[dict[Name, Classes], msgspec.Meta(max_length=256)] = msgspec.field(
        default_factory=dict
    )
    prefetch: Small = 0
    mix: Annotated[list[tuple[Name, Count]], msgspec.Meta(max_length=MAX_SOURCES)] = msgspec.field(
        default_factory=list
    )
    crash_policy: Name = ""
    integrity: Name = ""


class Ready(Record, frozen=True, tag="ready"):
    """A batch is in a slot. Announced in order of (epoch, step) within a run.

    `crashed` are the samples that are replaced in it because they crashed workers. With `verify`,
    `digests` are those of its rows, and `chain` is that of the run after it.
    """

    run: Count
    stream: Hex32
    epoch: Count
    step: Count
    slab: Count
    slot: Small
    generation: Count
    rows: Small
    outputs: Annotated[list[Placed], msgspec.Meta(max_length=512)]
    crashed: CrashedIds = msgspec.field(default_factory=list)
    digests: Annotated[bytes, msgspec.Meta(max_length=MAX_VERIFIED_ROWS * ROW_DIGEST_BYTES)] = b""
    chain: Annotated[bytes, msgspec.Meta(max_length=CHAIN_BYTES)] = b""


class Error(Record, frozen=True, tag="error"):
    """Something failed; `request` is the request that this answers, or 0 for the whole session.

    `run` is the run that stopped, or None if no delivery was affected.
    """

    request: Small
    code: Name
    message: Text
    details: Annotated[dict[Name, Text | int | bool | None], msgspec.Meta(max_length=64)]
    run: Count | None = None


class SessionStatus(msgspec.Struct, frozen=True, array_like=True):
    """One session of a daemon, for people.

    The first fields say who the client is, and `known_from` who says so; see HELLO. `state` is
    "greeted" (no lifeline yet), "attached", "opening" (an OPEN is pending) or "open". `epoch` and
    `step` are those of the next batch to be announced, `steps` is the number of steps of that
    epoch; `epochs` is the length of the training if the OPEN said it, otherwise 0.

    `announced` and `returned` count batches since OPENED. `untaken` batches are announced and, as
    the credits say, not taken yet. `slots` is how many it may use. `waited_s` are the seconds in
    which it had granted all its credits and had no batch left to take, `age_s` those since HELLO.
    `number` counts the sessions of a daemon from 1, in the order of their HELLO. `rows` are those
    of its part of a batch, of the largest one with buckets. `returned_s` are the seconds since it
    last returned a batch; -1: it has returned none.
    """

    name: Label
    host: Label
    pid: Count
    user: Label
    known_from: Label
    state: SessionState
    dataset: Label
    pipeline: Label
    stream: Label
    group: Label
    rank: Small
    world_size: Small
    epoch: Count
    step: Count
    steps: Count
    epochs: Count
    announced: Count
    returned: Count
    untaken: Count
    slots: Small
    waited_s: float
    age_s: float
    number: Count = 0
    rows: Count = 0
    returned_s: float = -1.0


class StageSum(msgspec.Struct, frozen=True, array_like=True):
    """The time of the timed rows in one stage: seconds that passed, and seconds of processor time.

    `stage` is "read", "decode", "write", "other", or "op"; then `op` is its name, with the file and
    line of its call.
    """

    stage: Name
    op: Name
    wall_s: float
    cpu_s: float


class StageTimes(msgspec.Struct, frozen=True, array_like=True):
    """The stages of the `rows` that were timed of a dataset and a pipeline, since the start.

    Pipelines that clients send are all named `PRIVATE_PIPELINE`.
    """

    dataset: Name
    pipeline: Name
    rows: Count
    stages: Annotated[list[StageSum], msgspec.Meta(max_length=MAX_STAGES)]


class WorkerStatus(msgspec.Struct, frozen=True, array_like=True):
    """The work of one worker at this moment, as the daemon sees it from outside; for people.

    `worker` is its number in logs, `pid` its process, 0 before it has one. `state` is "starting",
    "idle", "opening" (it opens a stream), "compiling", "ending" (it was killed and is not dead
    yet), or the stage of a row: "read", "decode", "op", "write" or "other". `op` is then the name
    of the op, with the file and line of its call. It is seen there for `state_s` seconds, and works
    at its chunk for `chunk_s`. `cpu` is how many cores it used over the last second.

    The other fields say for which client: the dataset, pipeline and name of the first of the
    `sessions` that get the rows, and `stream`, `group` and `rank` as in SessionStatus; empty or 0
    if it computes nothing. `row` and `sample` are null while rows are computed many at a time.
    """

    worker: Count
    pid: Count
    state: WorkerDoes
    op: Label
    state_s: float
    chunk_s: float
    cpu: float
    dataset: Label
    pipeline: Label
    client: Label
    sessions: Small
    stream: Label
    group: Label
    rank: Small
    epoch: Count
    step: Count
    row: Count | None
    sample: Count | None
    chunks: Count
    age_s: float


class Status(Record, frozen=True, tag="status"):
    """Counters of the daemon, by metric name, and in `stages` where the time of rows went.

    `workers` says what each worker does now, the first `MAX_WORKERS` of them.

    The other fields only if ASK_STATUS asked for them. `sessions` are in the order of their HELLO,
    without the one that asks; the first `MAX_LISTED` of them. `datasets` and `pipelines` are the
    names that the daemon serves. `unready` says why new clients are not welcome; empty: they are.
    `pid` is the daemon's process, `page` the address of its web page; empty: it has no page.
    """

    counters: Annotated[dict[Name, int | float], msgspec.Meta(max_length=4096)]
    sessions: Annotated[list[SessionStatus], msgspec.Meta(max_length=MAX_LISTED)] = msgspec.field(
        default_factory=list
    )
    datasets: Names = msgspec.field(default_factory=list)
    pipelines: Names = msgspec.field(default_factory=list)
    unready: Text = ""
    pid: Count = 0
    stages: Annotated[list[StageTimes], msgspec.Meta(max_length=MAX_STAGES)] = msgspec.field(
        default_factory=list
    )
    workers: Annotated[list[WorkerStatus], msgspec.Meta(max_length=MAX_WORKERS)] = msgspec.field(
        default_factory=list
    )
    page: Text = ""


class Bye(Record, frozen=True, tag="bye"):
    """The daemon shuts down; nothing follows."""

    reason: Text


ClientRecord = Hello | Open | Seek | Credit | Release | Close | AskStatus | SetWorkers | AskReplay
DaemonRecord = Welcome | Building | Opened | Ready | Error | Status | Bye


# ---------------------------------------------------------------- side socket (SEQPACKET)


class Attach(Record, frozen=True, tag="attach"):
    """First packet of a client on the side socket: the token from WELCOME."""

    token: Token


class Attached(Record, frozen=True, tag="attached"):
    """The lifeline is up: while this connection lives, so does the session."""


class Slab(Record, frozen=True, tag="slab"):
    """Carries one descriptor: the memory of `slots` slots of `slot_bytes` bytes each."""

    slab: Count
    slots: Small
    slot_bytes: Count
    writable: bool


class Replayed(Record, frozen=True, tag="replayed"):
    """Carries one descriptor: a memory file of `size_bytes` bytes that holds the replay."""

    request: Small
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**30)]


class Carried(Record, frozen=True, tag="carried"):
    """On a carrier only: the first `size_bytes` bytes of a slot follow, those of a batch.

    `ready` announces the batch; None: a READY on the other connection does.
    """

    slab: Count
    slot: Small
    generation: Count
    size_bytes: Count
    ready: Ready | None = None


SideRecord = Attach | Attached | Slab | Replayed | Carried | Error
