"""Resolve the operator's names of datasets and pipelines; errors list the known names."""

import difflib
from collections.abc import Iterable, Mapping

from stoker.protocol.errors import UnknownNameError, UsageError
from stoker.protocol.messages import Open

MAX_LISTED = 20
MAX_GUESSED = 64


def resolve(kind: str, name: str, known: Mapping[str, str], owner: str = "this daemon") -> str:
    """Return the value of a name; `owner` describes where such names are defined.

    Raises:
        UnknownNameError: there is no such name; the message lists the known ones.
    """
    if name in known:
        return known[name]
    raise UnknownNameError(
        f"there is no {kind} {name!r}{_guess(name, known)}; {owner} has {_listed(known)}",
        kind=kind,
        name=name,
    )


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
        f"expected the name of a dataset, because this daemon has {_listed(known)}, not exactly one"
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
            f" {_listed(known)}"
        )
    return resolve("pipeline", name, known) if name else ""


def names_of(request: Open, datasets: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the names in an OPEN, for logs.

    Args:
        request: the OPEN.
        datasets: the daemon's; None: the request may name no dataset that exists.
    """
    only = next(iter(datasets)) if datasets and not request.dataset else ""
    pipeline = request.pipeline or ("sent by the client" if request.graph else "")
    return {"dataset": request.dataset or only, "pipeline": pipeline}


def _guess(name: str, known: Iterable[str]) -> str:
    if len(name) > MAX_GUESSED:
        return ""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def _listed(known: Mapping[str, str]) -> str:
    names = sorted(known)
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return (", ".join(repr(name) for name in names[:MAX_LISTED]) or "none") + more
