"""`StreamRequest`: the record that describes a stream, as a Loader builds it and OPEN carries it.

It says which datasets a stream reads and by which pipelines, which of their samples and how often,
in which order, in what batches, and with which draws. A daemon resolves its names, builds the
pipelines, and derives the StreamSpec from the record and the build. `DeliveryRequest` says how the
batches come; it changes none of them.

On the wire each record is a map by name. A field with its default value is left out, and a name
that the reader does not know refuses the message, so no side ignores an option that it lacks.
Bounds are part of the types. `option_refusals` has the options that exclude others.
docs/protocol.md has the tables.
"""

from typing import Annotated, Literal

import msgspec

from stoker.protocol.errors import UsageError
from stoker.protocol.length_buckets import LengthBuckets
from stoker.protocol.size_buckets import Buckets
from stoker.protocol.spec import MAX_BATCH, MAX_EXCLUDED, MAX_ROWS, MAX_VIEWS
from stoker.protocol.splits import MAX_SPLIT_NAME
from stoker.protocol.subset import MAX_SUBSET_BYTES
from stoker.protocol.weights import MAX_WEIGHT_BYTES

MAX_SOURCES = 64
"""Datasets of a stream."""
MAX_HOSTS = 64
"""Daemons of one stream."""
MAX_RATIO = 1e300
MAX_GRAPH_BYTES = 2**20
MAX_CONDITION = 4096
"""Characters of a condition."""
MAX_PREFETCH = 4096
"""Batches under way, and batches that a caller may hold without copies."""

Name = Annotated[str, msgspec.Meta(max_length=256)]
Address = Annotated[str, msgspec.Meta(max_length=1024)]
GroupName = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Seed = Annotated[int, msgspec.Meta(ge=0)]
Depth = Annotated[int, msgspec.Meta(ge=1, le=MAX_PREFETCH)]
Rows = Annotated[int, msgspec.Meta(ge=0, le=MAX_ROWS)]


class RequestPart(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Base of the records of a request."""


class Selection(RequestPart, frozen=True):
    """The samples of a dataset, and how often each comes: by default all of them once.

    Attributes:
        split: name of a split of the dataset, whose samples alone are visited; or empty.
        condition: what the only samples to visit have in common, such as `width >= 256`; or empty.
        subset: the only samples to visit, as a compressed bitmap; or empty. See
            `stoker.protocol.subset`.
        exclude: ids of samples to leave out; or empty. See `stoker.protocol.exclude`.
        weights: how often each of the others comes; or empty. See `stoker.protocol.weights`.
    """

    split: Annotated[str, msgspec.Meta(max_length=MAX_SPLIT_NAME)] = ""
    condition: Annotated[str, msgspec.Meta(max_length=MAX_CONDITION)] = ""
    subset: Annotated[bytes, msgspec.Meta(max_length=MAX_SUBSET_BYTES)] = b""
    exclude: Annotated[bytes, msgspec.Meta(max_length=8 * MAX_EXCLUDED)] = b""
    weights: Annotated[bytes, msgspec.Meta(max_length=MAX_WEIGHT_BYTES)] = b""


class SourceRequest(RequestPart, frozen=True):
    """A dataset of a stream, and the pipeline for its samples.

    Attributes:
        dataset: its name at the daemon; empty if that has exactly one.
        pipeline: name of one of the daemon's pipelines; empty if `graph` is given.
        graph: canonical form of a pipeline's graph data; empty if `pipeline` is given.
        ratio: how many rows of a batch it has, relative to the other sources of a mixture; None for
            the only source of a stream that is not a mixture.
        selection: which of its samples.
    """

    dataset: Name = ""
    pipeline: Name = ""
    graph: Annotated[bytes, msgspec.Meta(max_length=MAX_GRAPH_BYTES)] = b""
    ratio: Annotated[float, msgspec.Meta(gt=0, le=MAX_RATIO)] | None = None
    selection: Selection = Selection()


class OrderRequest(RequestPart, frozen=True):
    """The order of the samples.

    Attributes:
        shuffle: whether each epoch has its own order.
        block: samples in a block of a block shuffle; 0: all samples are shuffled together.
        seed: seed of the order; None: that of the draws.
        buckets: how samples are put into batches of one size or length; None: in any batch.
    """

    shuffle: bool = True
    block: Rows = 0
    seed: Seed | None = None
    buckets: Buckets | LengthBuckets | None = None


class BatchRequest(RequestPart, frozen=True):
    """The content of a batch.

    Attributes:
        positions: positions of the global batch, over all ranks.
        views: rows per position.
        tail: what happens to an incomplete last batch.
        on_error: what happens to a sample that cannot be used.
    """

    positions: Annotated[int, msgspec.Meta(ge=1, le=MAX_BATCH)]
    views: Annotated[int, msgspec.Meta(ge=1, le=MAX_VIEWS)] = 1
    tail: Literal["drop", "pad"] = "drop"
    on_error: Literal["raise", "replace", "mask"] = "raise"


class DrawRequest(RequestPart, frozen=True):
    """Everything that the draws of the pipelines depend on.

    Attributes:
        seed: seed of every draw.
        freeze: stream name -> the integer that replaces (id, epoch, visit, view), or "epoch".
        total_epochs: length of schedules, for pipelines that read it.
    """

    seed: Seed = 0
    freeze: Annotated[dict[Name, Seed | Literal["epoch"]], msgspec.Meta(max_length=1024)] = {}
    total_epochs: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)] | None = None


class StreamRequest(RequestPart, frozen=True):
    """A stream.

    Attributes:
        sources: its datasets; several, or one with a ratio, are a mixture.
        batch: what a batch consists of.
        order: in which order samples come.
        draws: what the draws depend on.
        params: whether each batch has the draw records of its rows as one more output; see
            `stoker.protocol.draw_records`.
    """

    sources: Annotated[
        tuple[SourceRequest, ...], msgspec.Meta(min_length=1, max_length=MAX_SOURCES)
    ]
    batch: BatchRequest
    order: OrderRequest = OrderRequest()
    draws: DrawRequest = DrawRequest()
    params: bool = False

    @property
    def is_mixture(self) -> bool:
        """True if the stream has a mixture of datasets, perhaps of one."""
        return len(self.sources) > 1 or self.sources[0].ratio is not None

    def check_sources(self) -> None:
        """Check that the sources fit together.

        Raises:
            UsageError: a source of a mixture has no ratio, or comes twice; or samples are chosen in
                several ways.
        """
        for source in self.sources:
            chosen = source.selection
            if (bool(chosen.split) + bool(chosen.condition) + bool(chosen.subset)) > 1:
                raise UsageError("subset: expected one of a split, a condition and a list of ids")
        if not self.is_mixture:
            return
        names = [source.dataset for source in self.sources]
        if any(source.ratio is None for source in self.sources):
            raise UsageError(f"mix: expected a ratio of each of the datasets {names}")
        if not all(names) or len(set(names)) < len(names):
            raise UsageError(f"mix: expected the name of each dataset, and each once, got {names}")


class GroupRequest(RequestPart, frozen=True):
    """A group of sessions that share work.

    Attributes:
        name: the name that all its members give.
        size: the group delivers nothing until as many members have begun, for at most a while; 0:
            it begins at once.
        mode: what the members share: "mirror", the slots; "fork", the decoded samples.
        hosts: addresses of all daemons that the members read from, sorted; empty: this one alone;
            None: those that a directory names.
        begun: whether the members have begun, at other daemons or at one that was lost, so none of
            them is waited for here.
    """

    name: GroupName
    size: Annotated[int, msgspec.Meta(ge=0, le=2**24)] = 0
    mode: Literal["mirror", "fork"] = "mirror"
    hosts: Annotated[tuple[Address, ...], msgspec.Meta(max_length=MAX_HOSTS)] | None = ()
    begun: bool = False


class DeliveryRequest(RequestPart, frozen=True):
    """The delivery of batches; nothing here changes a byte of them.

    Attributes:
        prefetch: batches under way; with `prefetch_bytes`, the most.
        leases: further slots, which the caller may hold without copies.
        prefetch_bytes: size of the slab within which the daemon chooses how many batches are under
            way, 2 to `prefetch`; 0: `prefetch`.
        verify: whether each READY brings digests; see `stoker.protocol.chain`.
        group: the group of the session; None: it is alone.
        progress: whether to send BUILDING while the answer is pending.
    """

    prefetch: Depth
    leases: Depth
    prefetch_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**48)] = 0
    verify: bool = False
    group: GroupRequest | None = None
    progress: bool = False
