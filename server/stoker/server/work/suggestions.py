"""Looks up names; the error for an unknown name lists the known ones, and suggests the nearest."""

import difflib
from collections.abc import Iterable, Mapping

from stoker.protocol.errors import UnknownNameError

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
        f"there is no {kind} {name!r}{_guess(name, known)}; {owner} has {listed(known)}",
        kind=kind,
        name=name,
    )


def _guess(name: str, known: Iterable[str]) -> str:
    if len(name) > MAX_GUESSED:
        return ""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def listed(known: Mapping[str, str]) -> str:
    """Return the known names as text, at most `MAX_LISTED`."""
    names = sorted(known)
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return (", ".join(repr(name) for name in names[:MAX_LISTED]) or "none") + more
