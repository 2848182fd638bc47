"""From what a caller gives to the record: each argument becomes a field of the StreamRequest.

A Loader gives its arguments, a command its flags, under the names of `STREAM_OPTIONS`. Everything
that can be refused without the datasets is refused here, with messages that name the argument.
"""

import itertools
import numbers
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from stoker.protocol.canonical import canonical_bytes
from stoker.protocol.errors import UsageError
from stoker.protocol.exclude import Excluded, read_ids
from stoker.protocol.request.argument_checks import name_of, within
from stoker.protocol.request.stream_options import STREAM_OPTIONS
from stoker.protocol.request.stream_request import (
    MAX_CONDITION,
    MAX_GRAPH_BYTES,
    MAX_RATIO,
    MAX_SOURCES,
    BatchRequest,
    DrawRequest,
    OrderRequest,
    Selection,
    SourceRequest,
    StreamRequest,
)
from stoker.protocol.spec import MAX_BATCH
from stoker.protocol.splits import is_condition, is_split_name
from stoker.protocol.subset import Subset
from stoker.protocol.weights import weights_of

MOST_GIVEN = 2**24
"""Values that an iterator may give: as many as weights, and more than ids."""


def stream_request(
    dataset: object, pipeline: object, options: Mapping[str, object], world_size: int = 1
) -> StreamRequest:
    """Return the record of a stream.

    Args:
        dataset: name of the only dataset, or None.
        pipeline: the pipeline of all datasets; of a mixture also name of a dataset -> its pipeline.
        options: name in `STREAM_OPTIONS` -> what the caller gives; one that is left out has its
            default.
        world_size: number of ranks.

    Raises:
        UsageError: an argument is wrong; the message names it.
    """
    parts: dict[str, dict[str, Any]] = {"stream": {}, "batch": {}, "order": {}, "draws": {}}
    values = {name: option.default for name, option in STREAM_OPTIONS.items()} | dict(options)
    for name, option in STREAM_OPTIONS.items():
        if option.field is not None:
            record, field = option.field
            value = option.kind.check(name, values[name])
            if value is not None:  # the field has a default that says the same
                parts[record][field] = value
    order = OrderRequest(**parts["order"])
    tail: Literal["drop", "pad"] = "drop" if values["drop_last"] else "pad"
    positions = _positions(values["batch_size"], values["global_batch_size"], world_size)
    return StreamRequest(
        sources=_sources(dataset, pipeline, values, sort=order.shuffle),
        batch=BatchRequest(positions=positions, tail=tail, **parts["batch"]),
        order=order,
        draws=DrawRequest(**parts["draws"]),
        **parts["stream"],
    )


def _sources(
    dataset: object, pipeline: object, options: Mapping[str, object], *, sort: bool
) -> tuple[SourceRequest, ...]:
    """Return the datasets of a stream, each with its pipeline and its samples."""
    mix, subset, exclude, weights = (
        options[name] for name in ("mix", "subset", "exclude", "weights")
    )
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
