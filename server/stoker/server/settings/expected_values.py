"""What a key of the configuration takes, and what came instead, in words for messages."""

from collections.abc import Sequence
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from stoker.server.settings.config_types import ByteSize, SizeOrNone

_SIZE = "such as 6GiB or 500MB"


def expected(kind: Any) -> str:
    """Return the values that a key takes, from its type and the bounds of that."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}"
    bare, marks = kind, list[msgspec.Meta]()
    if get_origin(kind) is Annotated:
        bare, *marks = get_args(kind)
    described = next((mark.description for mark in marks if mark.description), "")
    if described:
        return described
    if get_origin(bare) is tuple:
        item = get_args(bare)[0]
        return "a list of texts" if item is str else expected(item)
    if NoneType in get_args(bare):
        return expected(next(part for part in get_args(bare) if part is not NoneType))
    return f"{_PLAIN[bare]}{_bounds(marks)}"


_PLAIN = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "text",
    ByteSize: f"a size of at least 1 byte, {_SIZE}",
    SizeOrNone: f"a size {_SIZE}, or 0",
}
"""Type -> the values that it takes."""


def _bounds(marks: Sequence[msgspec.Meta]) -> str:
    """Return the bounds of a number in words; they begin with a blank."""
    low, above, high = next(((mark.ge, mark.gt, mark.le) for mark in marks), (None,) * 3)
    if low is not None:
        return f" of at least {low:g}" if high is None else f" from {low:g} to {high:g}"
    return "" if above is None else f" above {above:g} and at most {high:g}"


def shown(value: object) -> str:
    """Return a value that came instead, as it is written in TOML."""
    if value == "":
        return "no text"
    if isinstance(value, bool):
        return str(value).lower()
    return "a table" if isinstance(value, dict) else f"{value!r:.200}"
