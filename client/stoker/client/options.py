"""Check the caller's arguments and build the OPEN record.

Everything that can be rejected without the daemon is rejected here, with messages that name the
parameters of `Loader`; the daemon judges the rest (names, fields, memory).
"""

import dataclasses
import itertools
import numbers
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from stoker.client.checks import flag, name_of, one_of, within
from stoker.client.progress import is_shown
from stoker.protocol.buckets import Buckets
from stoker.protocol.canonical import canonical_bytes
from stoker.protocol.codec import MAX_MESSAGE_BYTES
from stoker.protocol.errors import UsageError
from stoker.protocol.exclude import Excluded, read_ids
from stoker.protocol.lengths import LengthBuckets
from stoker.protocol.messages import Open
from stoker.protocol.request.refusals import check_combination
from stoker.protocol.request.stream import (
    MAX_GRAPH_BYTES,
    MAX_PREFETCH,
    MAX_RATIO,
    MAX_SOURCES,
    BatchRequest,
    DeliveryRequest,
    DrawRequest,
    GroupRequest,
    OrderRequest,
    Selection,
    SourceRequest,
    StreamRequest,
)
from stoker.protocol.spec import MAX_BATCH, MAX_ROWS, MAX_SEED, MAX_VIEWS
from stoker.protocol.splits import is_condition, is_split_name
from stoker.protocol.subset import Subset
from stoker.protocol.weights import weights_of

OPEN_REQUEST = 1
"""Request number of OPEN; later requests count up from it."""
SLAB_BYTES = 2**29
"""Memory of a stream, within which the daemon chooses how many batches to prefetch."""
MOST_CHOSEN = 16
"""The most that it chooses: more hides no more slow rows. Older daemons take this number."""
MOST_MEMBERS = 64
MOST_GIVEN = 2**24
"""Values that an iterator may give: as many as weights, and more than ids."""
OTHER_BYTES = 2**16
"""Room in the message for all other arguments, of which `freeze` is the longest."""
_MODES = ("mirror", "fork")
_ON_ERROR = ("raise", "replace", "mask")


@dataclasses.dataclass(frozen=True)
class LoaderOptions:
    """The arguments that decide the stream; the attributes are `Loader`'s parameters, and the job.

    Attributes:
        job: the key of the job whose ranks open the same stream, or empty.
    """

    dataset: str | None
    pipeline: object
    batch_size: int | None
    global_batch_size: int | None
    seed: int
    shuffle: bool
    last: str
    rank: int
    world_size: int
    prefetch: int | None
    group: str | None
    on_error: str
    views: int
    freeze: Mapping[str, int | str] | None
    total_epochs: int | None
    params: bool = False
    buckets: Buckets | LengthBuckets | None = None
    exclude: str | os.PathLike[str] | Iterable[int] | None = None
    subset: str | os.PathLike[str] | Iterable[int] | None = None
    verify: bool = False
    weights: object = None
    shuffle_block_size: int | None = None
    mix: Mapping[str, float] | None = None
    group_size: int | None = None
    shuffle_seed: int | None = None
    mode: str | None = None
    job: bytes = b""

    def __post_init__(self) -> None:
        """Read iterators once, since a loader looks at its arguments more than once."""
        for name in ("exclude", "subset", "weights"):
            given = getattr(self, name)
            if self.mix is not None and isinstance(given, Mapping):
                object.__setattr__(self, name, {key: _read(one) for key, one in given.items()})
            else:
                object.__setattr__(self, name, _read(given))

    def record(self, leases: int) -> Open:
        """Return the OPEN record.

        Args:
            leases: number of slots that the caller may hold at once without copies.

        Raises:
            UsageError: an argument is out of bounds; the message names it.
        """
        on_error: Any = one_of("on_error", self.on_error, _ON_ERROR)
        tail: Literal["drop", "pad"] = "drop" if self.last == "drop" else "pad"
        stream = StreamRequest(
            sources=self._sources(),
            batch=BatchRequest(
                positions=self._global_batch(),
                views=within("views", self.views, 1, MAX_VIEWS),
                tail=tail,
                on_error=on_error,
            ),
            order=OrderRequest(
                shuffle=flag("shuffle", self.shuffle),
                block=self._shuffle_block(),
                seed=self._shuffle_seed(),
                buckets=self._buckets(),
            ),
            draws=DrawRequest(
                seed=within("seed", self.seed, 0, MAX_SEED),
                freeze=_freeze(self.freeze),
                total_epochs=None
                if self.total_epochs is None
                else within("total_epochs", self.total_epochs, 1, 2**48),
            ),
            params=flag("params", self.params),
        )
        delivery = DeliveryRequest(
            prefetch=MOST_CHOSEN
            if self.prefetch is None
            else within("prefetch", self.prefetch, 1, MAX_PREFETCH, " or None"),
            leases=leases,
            prefetch_bytes=SLAB_BYTES if self.prefetch is None else 0,
            verify=flag("verify", self.verify),
            group=self._group(),
            progress=self.rank == 0 and is_shown(),
        )
        check_combination(stream, delivery)
        _check_size(stream)
        return Open(OPEN_REQUEST, stream, delivery, self.rank, self.world_size, self.job)

    def _sources(self) -> tuple[SourceRequest, ...]:
        if self.mix is None:
            name, graph = pipeline_data(self.pipeline)
            dataset = name_of("dataset", "" if self.dataset is None else self.dataset)
            chosen = self._selection()
            return (SourceRequest(dataset=dataset, pipeline=name, graph=graph, selection=chosen),)
        if self.dataset is not None:
            raise UsageError("mix and dataset: expected only one of them; leave dataset out")
        return mixed_sources(self.mix, self.pipeline, self._selection)

    def _selection(self, dataset: str | None = None) -> Selection:
        """Return what is taken of a dataset; of a mixture, by its name."""
        exclude, subset, weights = (
            self._given(name, dataset) for name in ("exclude", "subset", "weights")
        )
        split, condition, chosen = "", "", b""
        if isinstance(subset, str) and is_split_name(subset):
            split = subset
        elif isinstance(subset, str) and is_condition(subset):
            condition = subset
        elif subset is not None:
            chosen = Subset(_ids("subset", subset), sort=bool(self.shuffle)).to_bytes()
        return Selection(
            split=split,
            condition=condition,
            subset=chosen,
            exclude=Excluded(() if exclude is None else _ids("exclude", exclude)).to_bytes(),
            weights=b"" if weights is None else weights_of(weights).to_bytes(),
        )

    def _given(self, argument: str, dataset: str | None) -> Any:
        """Return what an argument says of a dataset.

        In a mixture a condition, or a name of a split or of a field, is meant for all datasets;
        anything else is given by dataset.
        """
        given = getattr(self, argument)
        if dataset is None or given is None:
            return given
        assert self.mix is not None, "only datasets of a mixture are asked for by name"
        if isinstance(given, Mapping):
            if unknown := [name for name in given if name not in self.mix]:
                raise UsageError(
                    f"{argument}: expected names of the datasets of mix, "
                    f"{', '.join(map(repr, self.mix))}; got {unknown[0]!r}"
                )
            return given.get(dataset)
        names = [is_split_name] if argument == "weights" else [is_split_name, is_condition]
        if (
            argument != "exclude"
            and isinstance(given, str)
            and any(is_one(given) for is_one in names)
        ):
            return given
        raise UsageError(
            f"{argument}: the samples of a mixture are of several datasets, so expected "
            f"{{dataset: {argument}}}, such as {{{next(iter(self.mix))!r}: ...}}"
        )

    def _group(self) -> GroupRequest | None:
        if self.group is None:
            for name, given in (("group_size", self.group_size), ("mode", self.mode)):
                if given is not None:
                    raise UsageError(
                        f"{name}={given!r} without group=: expected the name of the group"
                    )
            return None
        if not name_of("group", self.group):
            raise UsageError(
                "group='': expected a name that the members of the group share, or None for a"
                " loader of its own"
            )
        size, mode = self.group_size, self.mode
        chosen: Any = "mirror" if mode is None else one_of("mode", mode, _MODES)
        return GroupRequest(
            name=self.group,
            size=0 if size is None else within("group_size", size, 1, MOST_MEMBERS, " or None"),
            mode=chosen,
        )

    def _shuffle_block(self) -> int:
        size = self.shuffle_block_size
        return 0 if size is None else within("shuffle_block_size", size, 1, MAX_ROWS, " or None")

    def _shuffle_seed(self) -> int | None:
        seed = self.shuffle_seed
        return None if seed is None else within("shuffle_seed", seed, 0, MAX_SEED, " or None")

    def _buckets(self) -> Buckets | LengthBuckets | None:
        if self.buckets is None or isinstance(self.buckets, Buckets | LengthBuckets):
            return self.buckets
        raise UsageError(
            f"buckets={self.buckets!r}: expected stoker.client.Buckets, for example "
            "Buckets(max_area=1024 * 1024), or LengthBuckets"
        )

    def _global_batch(self) -> int:
        if (self.batch_size is None) == (self.global_batch_size is None):
            raise UsageError(
                f"batch_size={self.batch_size!r}, global_batch_size={self.global_batch_size!r}: "
                "expected exactly one of them (batch_size counts per rank, global_batch_size over "
                "all ranks)"
            )
        if self.batch_size is not None:
            return self.world_size * within(
                "batch_size", self.batch_size, 1, MAX_BATCH // self.world_size
            )
        size = within("global_batch_size", self.global_batch_size, 1, MAX_BATCH)
        if size < self.world_size:
            raise UsageError(
                f"global_batch_size={size}: {self.world_size} ranks need at least one position "
                f"each; give at least {self.world_size}"
            )
        return size


def pipeline_data(pipeline: object) -> tuple[str, bytes]:
    """Return (name at the daemon, b"") or ("", canonical bytes of the graph).

    Raises:
        UsageError: it is neither a name nor a pipeline, or its graph is too large.
    """
    if isinstance(pipeline, str):
        if not pipeline:
            raise UsageError("pipeline='': expected a name known to the daemon, or a pipeline")
        return name_of("pipeline", pipeline), b""
    graph = getattr(pipeline, "graph", None)
    if not callable(graph):
        raise UsageError(
            f"pipeline={pipeline!r}: expected the name of a pipeline at the daemon, "
            "'module:attribute', or a pipeline made with stoker.pipeline"
        )
    data = canonical_bytes(graph().to_data())
    if len(data) > MAX_GRAPH_BYTES:
        raise UsageError(
            f"the pipeline's graph has {len(data)} bytes, but at most {MAX_GRAPH_BYTES} can be "
            "sent; name the pipeline at the daemon instead (--pipeline NAME=module:attribute)"
        )
    return "", data


def mixed_sources(
    mix: object, pipeline: object, selection_of: Callable[[str], Selection]
) -> tuple[SourceRequest, ...]:
    """Return the sources of a mixture.

    Args:
        mix: name of a dataset -> its ratio.
        pipeline: the pipeline of all of them, or name of a dataset -> its pipeline.
        selection_of: returns which samples of a dataset, by its name.

    Raises:
        UsageError: either cannot be.
    """
    if not isinstance(mix, Mapping) or not mix:
        raise UsageError(
            f'mix={mix!r}: expected names of datasets and their ratios, such as {{"a": 0.7, "b": '
            "0.3}"
        )
    if len(mix) > MAX_SOURCES:
        raise UsageError(f"mix: expected 1 to {MAX_SOURCES} datasets, got {len(mix)}")
    own = pipeline if isinstance(pipeline, Mapping) else dict.fromkeys(mix, pipeline)
    if own.keys() != mix.keys():
        raise UsageError(
            "pipeline: expected one pipeline, or one for each dataset of mix, "
            f"{', '.join(map(str, mix))}; got {', '.join(map(str, own))}"
        )
    found = []
    for name, ratio in mix.items():
        is_number = isinstance(ratio, numbers.Real) and not isinstance(ratio, bool)
        if not is_number or not 0 < float(ratio) <= MAX_RATIO:
            raise UsageError(
                f"mix[{name!r}]={ratio!r}: expected a positive number; leave a dataset out that "
                "should not come"
            )
        if not name_of("mix", name):
            raise UsageError("mix: expected the name of each dataset, got ''")
        known, graph = pipeline_data(own[name])
        found.append(
            SourceRequest(
                dataset=name,
                pipeline=known,
                graph=graph,
                ratio=float(ratio),
                selection=selection_of(name),
            )
        )
    return tuple(found)


def _read(given: object) -> object:
    """Return what an iterator gives as a list, because it can be read once."""
    if isinstance(given, Iterator):
        return list(itertools.islice(given, MOST_GIVEN + 1))
    return given


def _check_size(stream: StreamRequest) -> None:
    sizes = dict.fromkeys(("pipeline", "exclude", "subset", "weights"), 0)
    for source in stream.sources:
        sizes["pipeline"] += len(source.graph)
        for name in ("exclude", "subset", "weights"):
            sizes[name] += len(getattr(source.selection, name))
    if sum(sizes.values()) > MAX_MESSAGE_BYTES - OTHER_BYTES:
        listed = ", ".join(f"{name}={size}" for name, size in sizes.items() if size)
        raise UsageError(
            f"one message has room for {MAX_MESSAGE_BYTES} bytes, and these arguments take more "
            f"together: {listed}; name the pipeline at the daemon, or store the weights as a field "
            "of the dataset"
        )


def _freeze(freeze: object) -> dict[str, int | Literal["epoch"]]:
    checked: dict[str, int | Literal["epoch"]] = {}
    if freeze is None:
        return checked
    if not isinstance(freeze, Mapping):
        raise UsageError(
            f"freeze={freeze!r}: expected names of streams and what they are frozen to, such as "
            '{"crop": "epoch"}'
        )
    for stream, value in freeze.items():
        name_of("freeze", stream)
        if value == "epoch":
            checked[stream] = "epoch"
        else:
            checked[stream] = within(f"freeze[{stream!r}]", value, 0, MAX_SEED, ' or "epoch"')
    return checked


def _ids(name: str, given: object) -> Iterable[int]:
    """Return ids, or those that a file lists."""
    if isinstance(given, str | os.PathLike):
        return read_ids(given, name)
    if not isinstance(given, Iterable):
        raise UsageError(
            f"{name}={given!r}: expected sample ids, or the path of a file that lists them"
        )
    return given
