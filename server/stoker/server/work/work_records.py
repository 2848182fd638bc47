"""Records between the daemon, the template and its workers; one SEQPACKET packet each.

Internal to one installation: both ends always are the same release, so these records carry no
version. They still are typed and bounded like everything that crosses a process border. Rows are
counted in the global batch. Descriptors (slabs, worker sockets) travel with a packet.
"""

import msgspec

from stoker.protocol.canonical import digest128
from stoker.protocol.draw_records import Drawn
from stoker.protocol.errors import Detail
from stoker.protocol.length_buckets import LengthBuckets
from stoker.protocol.messages import StageSum
from stoker.protocol.request.stream_request import Selection
from stoker.protocol.size_buckets import Bucket, Buckets, Leftovers
from stoker.protocol.slot_layout import Output, SlotLayout
from stoker.protocol.spec import StreamSpec

MAX_BAD_TOLD = 64
"""Bad samples that a worker reports of one chunk; those beyond are met again next epoch."""


class SourceToBuild(msgspec.Struct, frozen=True, array_like=True):
    """A dataset of a stream that is wanted, its names resolved.

    `dataset` is its path. `pipeline` is `module:attr` from the operator's configuration, or empty;
    then `graph` is the canonical form of graph data that a client sent. `name` is the dataset's in
    a mixture, where it also has a `ratio`.
    """

    dataset: str
    pipeline: str = ""
    graph: bytes = b""
    selection: Selection = Selection()
    name: str = ""
    ratio: float | None = None


class StreamToBuild(msgspec.Struct, frozen=True, array_like=True):
    """The part of a request that a build reads; streams that differ elsewhere share a build.

    Without buckets and weights a build does not read which samples are excluded, and without
    buckets and mixtures not the `batch_size`; they are empty then.
    """

    sources: tuple[SourceToBuild, ...]
    buckets: Buckets | LengthBuckets | None = None
    batch_size: int = 0

    @property
    def digest(self) -> str:
        """A digest that distinguishes it from others, 32 hex digits."""
        return digest128(msgspec.msgpack.encode(self))


class BuiltSource(msgspec.Struct, frozen=True, array_like=True):
    """A dataset of a stream whose pipeline is built.

    `dataset` is its path, `graph` the canonical form that the build gave. A split of `selection` is
    resolved. `streams` are those that the pipeline draws from. In a mixture it has a `name`, and
    `share` is how many rows 1,000 batches have of it.
    """

    dataset: str
    fingerprint: str
    rows: int
    pipeline_id: str
    graph: bytes
    selection: Selection = Selection()
    streams: tuple[str, ...] = ()
    name: str = ""
    share: int = 0


class ServedStream(msgspec.Struct, frozen=True, array_like=True):
    """A stream as workers and replayers need it: the spec, and the data that it has digests of.

    `code` are the files of users that the build has imported, and their digests.
    """

    spec: StreamSpec
    sources: tuple[BuiltSource, ...]
    buckets: Buckets | LengthBuckets | None = None
    code: tuple[tuple[str, str], ...] = ()


class BuildRequest(msgspec.Struct, frozen=True, array_like=True, tag="build"):
    """Trace, bind and compile the pipelines of a stream.

    With buckets, those of the dataset are planned. `known` is the result of an earlier build of the
    same; it is the answer again if neither files of users nor the datasets changed.
    """

    build: int
    stream: StreamToBuild
    known: "BuildResult | None" = None


class BuildResult(msgspec.Struct, frozen=True, array_like=True, tag="built"):
    """The result of a build: all that is needed for a StreamSpec and for a slab.

    `streams` are the names of the streams that the pipeline draws from: these can be frozen.
    `drawn` says where the draw records of a row lie, should a session want them, in `params_bytes`
    bytes.
    `reads_schedule`: whether it reads how much of the training is over, so `total_epochs` counts.
    `group_rows`: rows that are mixed with each other, by their number in the global batch; 1: none.
    `bucket_plan` is the digest of a plan, `buckets` are its buckets and `bucket_outputs` what comes
    out for each of them; `outputs` have room for all; `merged` samples are in another bucket than
    the rule gave them. A worker needs `working_bytes` for decoded images and values between the
    steps; `most`, a step or a field, needs `most_bytes` of them. `excluded` is the digest of
    what the request's `subset`, and weights of 0, leave out, and `weights` that of its weights.
    `mix` is the digest of a mixture; `fingerprint`, `rows` and `pipeline_id` are then those of all
    of its datasets.
    `classes` are names of classes by field, as many as OPENED can hold. `code` are the files of
    users that the build has imported, and their digests. The fields that are decoded for a row have
    at most `decoded_bytes` bytes, and for a row of usual size `usual_bytes`.
    """

    build: int
    fingerprint: str
    rows: int
    pipeline_id: str
    outputs: tuple[Output, ...]
    sources: tuple[BuiltSource, ...]
    streams: tuple[str, ...] = ()
    reads_schedule: bool = False
    drawn: tuple[Drawn, ...] = ()
    params_bytes: int = 0
    group_rows: int = 1
    bucket_plan: str | None = None
    buckets: tuple[Bucket, ...] = ()
    bucket_outputs: tuple[tuple[Output, ...], ...] = ()
    leftovers: Leftovers = "carry"
    merged: int = 0
    working_bytes: int = 0
    most_bytes: int = 0
    most: str = ""
    excluded: str | None = None
    classes: dict[str, tuple[str, ...]] = {}
    weights: str | None = None
    mix: str | None = None
    code: tuple[tuple[str, str], ...] = ()
    decoded_bytes: int = 0
    usual_bytes: int = 0

    @property
    def parts(self) -> tuple[BuiltSource, ...]:
        """The datasets of a mixture; none if the stream is not one."""
        return self.sources if self.mix else ()


class StackFile(msgspec.Struct, frozen=True, array_like=True, tag="stack"):
    """Comes with a descriptor: where a one-off child without progress writes what it does."""


class ProgressReport(msgspec.Struct, frozen=True, array_like=True, tag="progress"):
    """The process makes progress; `compiling`: it compiles, which may take long.

    It has `done` of the `total` functions that it needs.
    """

    compiling: bool = False
    done: int = 0
    total: int = 0


class ReplayRequest(msgspec.Struct, frozen=True, array_like=True, tag="replay"):
    """Replay one sample of a stream.

    `crashed` are the samples that are not touched where it is mixed with others. `integrity` is
    that of the workers. `stored` is that of `AskReplay`.
    """

    replay: int
    served: ServedStream
    id: int
    epoch: int
    visit: int
    view: int
    crashed: tuple[int, ...] = ()
    integrity: str = "auto"
    stored: bool = False


class ReplayMade(msgspec.Struct, frozen=True, array_like=True, tag="replay_made"):
    """Comes with a descriptor: a memory file of `size_bytes` bytes that holds the replay."""

    replay: int
    size_bytes: int


class DecoderRequest(msgspec.Struct, frozen=True, array_like=True, tag="decoder"):
    """Compile a form of Stoker's own decoder of JPEGs into the cache of kernels."""

    form: int


class DecoderCompiled(msgspec.Struct, frozen=True, array_like=True, tag="decoder_compiled"):
    """The decoder is in the cache, for all processes."""


class UseDecoder(msgspec.Struct, frozen=True, array_like=True, tag="use_decoder"):
    """Tell a worker to load a form of Stoker's own decoder of JPEGs, and to use it from now on."""

    form: int


class OpenStream(msgspec.Struct, frozen=True, array_like=True, tag="open_stream"):
    """Tell a worker of a stream: everything it needs to compute any row of it.

    With `params` the last output before the columns about the rows holds the draw records. With
    buckets, `layout` and `first_row` are those of the largest batch; the worker finds those of the
    others. With `verify` each chunk comes with the digests of its rows. Streams of one `fork`, a
    number from 1, decode samples once for all of them, into `fork_bytes` of memory.
    """

    stream: int
    served: ServedStream
    layout: SlotLayout
    first_row: int
    params: bool = False
    rank: int = 0
    world_size: int = 1
    verify: bool = False
    fork: int = 0
    fork_bytes: int = 0


class CloseStream(msgspec.Struct, frozen=True, array_like=True, tag="close_stream"):
    """Tell a worker to forget a stream."""

    stream: int


class AddSlab(msgspec.Struct, frozen=True, array_like=True, tag="add_slab"):
    """Comes with a descriptor: map that slab."""

    slab: int
    size_bytes: int


class DropSlab(msgspec.Struct, frozen=True, array_like=True, tag="drop_slab"):
    """Unmap that slab."""

    slab: int


class Work(msgspec.Struct, frozen=True, array_like=True, tag="work"):
    """One chunk: fill the rows [row_lo, row_hi) of a step into a slot.

    `offset` is where the slot begins in the slab and `size_bytes` how long it is, in bytes.
    `crashed` are the samples that are replaced in that step since they crashed workers. `behind` is
    how many chunks of other streams of its fork follow, which read the same samples.
    """

    claim: int
    stream: int
    epoch: int
    step: int
    slab: int
    slot: int
    generation: int
    offset: int
    size_bytes: int
    row_lo: int
    row_hi: int
    crashed: tuple[int, ...] = ()
    behind: int = 0


class BadSample(msgspec.Struct, frozen=True, array_like=True):
    """A sample that could not be used, under a policy that goes on: its id, and why.

    `field` and `source` (the path it was packed from) are empty where they are not known.
    """

    id: int
    field: str
    source: str
    reason: str


class Timed(msgspec.Struct, frozen=True, array_like=True):
    """The stages of rows that were timed, of the stream's dataset with the number `source`.

    A stage may come twice.
    """

    source: int
    rows: int
    stages: tuple[StageSum, ...]


class Done(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """A chunk is written. `home_rows` of its rows are in the worker's home range.

    `shapes` are the shapes of a row in this batch, of each output that `is_told`; they are the
    same for all its chunks. `bad` are the bad samples that were met, at most `MAX_BAD_TOLD`.
    `digests` are those of its rows, if the stream is verified. For its rows `decodes`
    encoded values of samples were decoded, each whole or a box of it. `wanted_form`: the worker
    has met JPEGs for this form of Stoker's own decoder, and waits until it is compiled; 0 if it
    waits for none (`decoding.choice` has the others). `seconds` is its cost
    without the wait for a processor, `wall_s` with it, and `cpu_s` its processor time. `timed` are
    the stages of some of its rows.
    """

    claim: int
    seconds: float
    home_rows: int
    replaced_rows: int = 0
    invalid_rows: int = 0
    shapes: tuple[tuple[int, ...], ...] = ()
    bad: tuple[BadSample, ...] = ()
    digests: bytes = b""
    decodes: int = 0
    wanted_form: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    timed: tuple[Timed, ...] = ()


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """A chunk or a stream could not be worked on; the error in wire form. `claim` 0: the stream."""

    claim: int
    stream: int
    code: str
    message: str
    details: dict[str, Detail]


class WorkerReady(msgspec.Struct, frozen=True, array_like=True, tag="ready"):
    """First packet of a worker: it is up and has one thread."""

    worker: int
    pid: int


ToWorker = OpenStream | CloseStream | AddSlab | DropSlab | Work | UseDecoder


class Unstored(msgspec.Struct, frozen=True, array_like=True, tag="unstored"):
    """Kernels that the process compiled could not be stored, so others compile them again."""

    reason: str


class DecoderNotFound(msgspec.Struct, frozen=True, array_like=True, tag="decoder_not_found"):
    """The worker was told to use the decoder of JPEGs, and did not find it in the cache."""


FromWorker = WorkerReady | Done | Failed | ProgressReport | Unstored | DecoderNotFound
