"""The request of a Loader: each argument is checked here and becomes a field of the record.

Everything that can be refused without the daemon is refused here, with messages that name the
arguments of `Loader`; the daemon judges the rest (names, fields, memory).
"""

import itertools
import numbers
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from stoker.client.checks import flag, name_of, one_of, within
from stoker.client.options.records import Connection, Group, Shuffle
from stoker.protocol.buckets import Buckets
from stoker.protocol.canonical import canonical_bytes
from stoker.protocol.codec import MAX_MESSAGE_BYTES
from stoker.protocol.errors import UsageError
from stoker.protocol.exclude import Excluded, read_ids
from stoker.protocol.lengths import LengthBuckets
from stoker.protocol.request.refusals import check_combination
from stoker.protocol.request.stream import (
    MAX_CONDITION,
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
"""The most that it chooses: more hides no more slow rows."""
MOST_GIVEN = 2**24
"""Values that an iterator may give: as many as weights, and more than ids."""
OTHER_BYTES = 2**16
"""Room in the message for all other arguments, of which `freeze` is the longest."""
_ON_ERROR = ("raise", "replace", "mask")


def sources_of(
    dataset: object,
    mix: object,
    pipeline: object,
    *,
    subset: object,
    exclude: object,
    weights: object,
    sort: bool,
) -> tuple[SourceRequest, ...]:
    """Return the datasets of a stream, each with its pipeline and its samples.

    Args:
        dataset: name of the only dataset, or None.
        mix: of a mixture, name of a dataset -> its ratio; or None.
        pipeline: the pipeline of all datasets; of a mixture also name of a dataset -> its pipeline.
        subset: the only samples; of a mixture one split or condition for all, or name of a
            dataset -> samples.
        exclude: samples to leave out; of a mixture name of a dataset -> samples.
        weights: how often samples come; of a mixture one field for all, or name of a dataset -> its
            weights.
        sort: whether ids of a subset may come in any order.

    Raises:
        UsageError: an argument is wrong; the message names it.
    """
    if mix is None:
        name, graph = pipeline_data(pipeline)
        known = name_of("dataset", "" if dataset is None else dataset)
        chosen = _selection(subset, exclude, weights, sort=sort)
        return (SourceRequest(dataset=known, pipeline=name, graph=graph, selection=chosen),)
    if dataset is not None:
        raise UsageError("mix and dataset: expected only one of them; leave dataset out")
    ratios = _ratios(mix)
    pipelines = _pipelines(ratios, pipeline)
    subsets = _by_dataset(
        "subset", subset, ratios, for_all=is_split_name(subset) or is_condition(subset)
    )
    excludes = _by_dataset("exclude", exclude, ratios, for_all=False)
    weightings = _by_dataset("weights", weights, ratios, for_all=is_split_name(weights))
    found = []
    for name, ratio in ratios.items():
        known, graph = pipeline_data(pipelines[name])
        chosen = _selection(subsets[name], excludes[name], weightings[name], sort=sort)
        found.append(
            SourceRequest(dataset=name, pipeline=known, graph=graph, ratio=ratio, selection=chosen)
        )
    return tuple(found)


def batch_of(
    batch_size: object,
    global_batch_size: object,
    *,
    world_size: int,
    views: object,
    last: str,
    on_error: object,
) -> BatchRequest:
    """Return what a batch consists of.

    Raises:
        UsageError: an argument is wrong; the message names it.
    """
    chosen: Any = one_of("on_error", on_error, _ON_ERROR)
    tail: Literal["drop", "pad"] = "drop" if last == "drop" else "pad"
    return BatchRequest(
        positions=_positions(batch_size, global_batch_size, world_size),
        views=within("views", views, 1, MAX_VIEWS),
        tail=tail,
        on_error=chosen,
    )


def order_of(shuffle: object, buckets: object) -> OrderRequest:
    """Return the order of the samples.

    Raises:
        UsageError: an argument is wrong; the message names it.
    """
    if buckets is not None and not isinstance(buckets, Buckets | LengthBuckets):
        raise UsageError(
            f"buckets={buckets!r}: expected stoker.client.Buckets, for example "
            "Buckets(max_area=1024 * 1024), or LengthBuckets"
        )
    if isinstance(shuffle, Shuffle):
        return OrderRequest(
            shuffle=shuffle.samples,
            block=shuffle.block_size or 0,
            seed=shuffle.seed,
            buckets=buckets,
        )
    return OrderRequest(shuffle=flag("shuffle", shuffle), buckets=buckets)


def draws_of(seed: object, freeze: object, total_epochs: object) -> DrawRequest:
    """Return what the draws depend on.

    Raises:
        UsageError: an argument is wrong; the message names it.
    """
    if total_epochs is not None:
        total_epochs = within("total_epochs", total_epochs, 1, MAX_ROWS)
    return DrawRequest(
        seed=within("seed", seed, 0, MAX_SEED), freeze=_freeze(freeze), total_epochs=total_epochs
    )


def delivery_of(
    prefetch: object, leases: int, *, verify: object, group: object, progress: bool
) -> DeliveryRequest:
    """Return how the batches come.

    Args:
        prefetch: the Loader's.
        leases: number of slots that the caller may hold at once without copies.
        verify: the Loader's.
        group: name of a group, or a `Group`, or None.
        progress: whether the progress of a build is shown.

    Raises:
        UsageError: an argument is wrong; the message names it.
    """
    asked = None
    if group is not None:
        chosen: Any = group if isinstance(group, Group) else Group(group)  # type: ignore[arg-type]
        asked = GroupRequest(name=chosen.name, size=chosen.size or 0, mode=chosen.mode)
    return DeliveryRequest(
        prefetch=MOST_CHOSEN
        if prefetch is None
        else within("prefetch", prefetch, 1, MAX_PREFETCH, " or None"),
        leases=leases,
        prefetch_bytes=SLAB_BYTES if prefetch is None else 0,
        verify=flag("verify", verify),
        group=asked,
        progress=progress,
    )


def connection_of(given: object) -> Connection:
    """Return how the daemons are reached.

    Raises:
        UsageError: it is neither a `Connection` nor None.
    """
    if given is None or isinstance(given, Connection):
        return given or Connection()
    raise UsageError(f"connection={given!r}: expected stoker.client.Connection, or None")


def check_request(stream: StreamRequest, delivery: DeliveryRequest) -> None:
    """Check a request as a whole.

    Raises:
        UsageError: options exclude each other, or the request is too large for a message.
    """
    check_combination(stream, delivery)
    _check_size(stream)


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


def _selection(subset: object, exclude: object, weights: object, *, sort: bool) -> Selection:
    split, condition, ids = "", "", b""
    if isinstance(subset, str) and is_split_name(subset):
        split = subset
    elif isinstance(subset, str) and is_condition(subset):
        if len(subset) > MAX_CONDITION:
            raise UsageError(
                f"subset: expected a condition of at most {MAX_CONDITION} characters, got "
                f"{len(subset)}; give ids, or a file that lists them"
            )
        condition = subset
    elif subset is not None:
        ids = Subset(_ids("subset", subset), sort=sort).to_bytes()
    excluded = Excluded(() if exclude is None else _ids("exclude", exclude))
    if isinstance(weights, Iterator):
        weights = list(itertools.islice(weights, MOST_GIVEN + 1))
    return Selection(
        split=split,
        condition=condition,
        subset=ids,
        exclude=excluded.to_bytes(),
        weights=b"" if weights is None else weights_of(weights).to_bytes(),
    )


def _ratios(mix: object) -> dict[str, float]:
    if not isinstance(mix, Mapping) or not mix:
        raise UsageError(
            f'mix={mix!r}: expected names of datasets and their ratios, such as {{"a": 0.7, "b": '
            "0.3}"
        )
    if len(mix) > MAX_SOURCES:
        raise UsageError(f"mix: expected 1 to {MAX_SOURCES} datasets, got {len(mix)}")
    for name, ratio in mix.items():
        is_number = isinstance(ratio, numbers.Real) and not isinstance(ratio, bool)
        if not is_number or not 0 < float(ratio) <= MAX_RATIO:
            raise UsageError(
                f"mix[{name!r}]={ratio!r}: expected a positive number; to skip a dataset, remove it"
                " from mix"
            )
        if not name_of("mix", name):
            raise UsageError("mix: expected the name of each dataset, got ''")
    return {name: float(ratio) for name, ratio in mix.items()}


def _pipelines(names: Iterable[str], pipeline: object) -> Mapping[str, object]:
    """Return the pipeline of each dataset of a mixture."""
    own = pipeline if isinstance(pipeline, Mapping) else dict.fromkeys(names, pipeline)
    if own.keys() != set(names):
        raise UsageError(
            "pipeline: expected one pipeline, or one for each dataset of mix, "
            f"{', '.join(map(str, names))}; got {', '.join(map(str, own))}"
        )
    return own


def _by_dataset(
    argument: str, given: object, names: Iterable[str], *, for_all: bool
) -> dict[str, object]:
    """Return the value of an argument for each dataset of a mixture; None where it has none.

    Args:
        argument: its name.
        given: what the caller gave: a value, or name of a dataset -> value.
        names: of the datasets.
        for_all: whether the value has a meaning for every dataset, as the name of a split has.

    Raises:
        UsageError: a value has a meaning for one dataset alone, or a name is not in the mixture.
    """
    if given is None or for_all:
        return dict.fromkeys(names, given)
    found: dict[str, object] = dict.fromkeys(names)
    if not isinstance(given, Mapping):
        raise UsageError(
            f"{argument}: the samples of a mixture are of several datasets, so expected "
            f"{{dataset: {argument}}}, such as {{{next(iter(found))!r}: ...}}"
        )
    for name, value in given.items():
        if name not in found:
            raise UsageError(
                f"{argument}: expected names of the datasets of mix, "
                f"{', '.join(map(repr, found))}; got {name!r}"
            )
        found[name] = value
    return found


def _positions(batch_size: object, global_batch_size: object, world_size: int) -> int:
    if (batch_size is None) == (global_batch_size is None):
        raise UsageError(
            f"batch_size={batch_size!r}, global_batch_size={global_batch_size!r}: expected exactly"
            " one of them (batch_size counts per rank, global_batch_size over all ranks)"
        )
    if batch_size is not None:
        return world_size * within("batch_size", batch_size, 1, MAX_BATCH // world_size)
    size = within("global_batch_size", global_batch_size, 1, MAX_BATCH)
    if size < world_size:
        raise UsageError(
            f"global_batch_size={size}: {world_size} ranks need at least one position each; give "
            f"at least {world_size}"
        )
    return size


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
    if isinstance(given, Iterator):
        return list(itertools.islice(given, MOST_GIVEN + 1))
    return given
