"""Resolve the operator's names of datasets and pipelines; errors list the known names."""

from collections.abc import Mapping
from typing import Final

from stoker.protocol.errors import UsageError
from stoker.protocol.request.stream_request import Selection, StreamRequest
from stoker.server.work.suggestions import listed, resolve
from stoker.server.work.work_records import SourceToBuild, StreamToBuild

_MIXTURE: Final = "a mixture"


def resolve_dataset(name: str, known: Mapping[str, str]) -> str:
    """Return the path of a dataset; an empty name means the only dataset.

    Raises:
        UnknownNameError: there is no such name.
        UsageError: no name was given, and the daemon does not have exactly one dataset.
    """
    if name:
        return resolve("dataset", name, known)
    if len(known) == 1:
        return next(iter(known.values()))
    raise UsageError(
        f"expected the name of a dataset, because this daemon has {listed(known)}, not exactly one"
    )


def resolve_pipeline(name: str, graph: bytes, known: Mapping[str, str]) -> str:
    """Return the `module:attr` of a pipeline, or "" if a graph was given instead of a name.

    Raises:
        UnknownNameError: there is no such name.
        UsageError: neither a name nor a graph was given, or both.
    """
    if bool(name) == bool(graph):
        got = "both" if name else "neither"
        raise UsageError(
            f"expected a pipeline by name or as an object, got {got}; this daemon has"
            f" {listed(known)}"
        )
    return resolve("pipeline", name, known) if name else ""


def resolve_names(
    request: StreamRequest, datasets: Mapping[str, str], pipelines: Mapping[str, str]
) -> StreamToBuild:
    """Return what a build of a stream reads, with the operator's names resolved.

    Raises:
        UnknownNameError: a name is unknown.
        UsageError: a name is missing.
    """
    buckets = request.order.buckets
    counts = buckets is not None or request.is_mixture
    sources = tuple(
        SourceToBuild(
            resolve_dataset(source.dataset, datasets),
            resolve_pipeline(source.pipeline, source.graph, pipelines),
            source.graph,
            _read_by_build(source.selection, all_of_it=counts),
            source.dataset if request.is_mixture else "",
            source.ratio,
        )
        for source in request.sources
    )
    return StreamToBuild(sources, buckets, request.batch.positions if counts else 0)


def _read_by_build(selection: Selection, *, all_of_it: bool) -> Selection:
    """Return the part of a selection that a build reads.

    An exclude list alone changes nothing, unless there are buckets or several datasets.
    """
    listed = Selection(exclude=selection.exclude)
    return selection if all_of_it or selection != listed else Selection()


def pipeline_name(request: StreamRequest) -> str:
    """Return the name of the pipeline that an OPEN asks for, for logs; empty if it names none."""
    if request.is_mixture:
        return _MIXTURE
    source = request.sources[0]
    return source.pipeline or ("sent by the client" if source.graph else "")


def dataset_name(request: StreamRequest, datasets: Mapping[str, str]) -> str:
    """Return the name of the dataset that an OPEN asks for, for logs; it may not exist.

    Args:
        request: the stream that it asks for.
        datasets: the daemon's; a single one needs no name.
    """
    if request.is_mixture:
        return _MIXTURE
    only = next(iter(datasets)) if len(datasets) == 1 else ""
    return request.sources[0].dataset or only
