"""Resolve the operator's names of datasets and pipelines; errors list the known names."""

from collections.abc import Mapping

from stoker.protocol.errors import UsageError
from stoker.protocol.messages import Open
from stoker.protocol.mix import mix_from_bytes
from stoker.server.work.records import MixWanted
from stoker.server.work.suggestions import listed, resolve


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


def resolve_mix(
    request: Open, datasets: Mapping[str, str], pipelines: Mapping[str, str]
) -> tuple[MixWanted, ...]:
    """Return the datasets of a mixture by path, with their pipelines.

    Raises:
        UnknownNameError: a name is unknown.
        UsageError: the request is not a mixture.
    """
    return tuple(
        MixWanted(
            part.dataset,
            resolve("dataset", part.dataset, datasets),
            resolve_pipeline(part.pipeline, part.graph.encode(), pipelines),
            part.graph.encode(),
            part.ratio,
        )
        for part in mix_from_bytes(request.mix)
    )


def names_of(request: Open, datasets: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the names in an OPEN, for logs.

    Args:
        request: the OPEN.
        datasets: the daemon's; None: the request may name no dataset that exists.
    """
    only = next(iter(datasets)) if datasets and not request.dataset else ""
    if request.mix:
        return {"dataset": "a mixture", "pipeline": request.pipeline or "a mixture"}
    pipeline = request.pipeline or ("sent by the client" if request.graph else "")
    return {"dataset": request.dataset or only, "pipeline": pipeline}
