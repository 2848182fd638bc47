"""Names that the operator gave to datasets and pipelines, resolved; an error lists what exists."""

import difflib
from collections.abc import Iterable, Mapping

from stoker.protocol.errors import UnknownNameError, UsageError

MAX_LISTED = 20
MAX_GUESSED = 64


def resolve(kind: str, name: str, known: Mapping[str, str], owner: str = "this daemon") -> str:
    """Return what the name stands for; `owner` is who knows such names.

    Raises:
        UnknownNameError: there is no such name; the message lists those that there are.
    """
    if name in known:
        return known[name]
    raise UnknownNameError(
        f"there is no {kind} {name!r}{_guess(name, known)}; {owner} has {_listed(known)}",
        kind=kind,
        name=name,
    )


def resolve_dataset(name: str, known: Mapping[str, str]) -> str:
    """Return the path of a dataset; no name means the only one.

    Raises:
        UnknownNameError: there is no such name.
        UsageError: no name was given and the daemon has not exactly one dataset.
    """
    if name:
        return resolve("dataset", name, known)
    if len(known) == 1:
        return next(iter(known.values()))
    raise UsageError(
        f"name a dataset: without a name, exactly one is expected; this daemon has {_listed(known)}"
    )


def resolve_pipeline(name: str, graph: bytes, known: Mapping[str, str]) -> str:
    """Return the `module:attr` of a pipeline, or nothing if a graph came instead of a name.

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


def _guess(name: str, known: Iterable[str]) -> str:
    if len(name) > MAX_GUESSED:
        return ""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def _listed(known: Mapping[str, str]) -> str:
    names = sorted(known)
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return (", ".join(repr(name) for name in names[:MAX_LISTED]) or "none") + more
