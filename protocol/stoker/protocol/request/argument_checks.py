"""Checks of single arguments: integers, switches, names, choices.

Each returns the argument in the form that the stream needs, or raises a UsageError that names it.
"""

import numbers

import numpy as np

from stoker.protocol.datasets import is_utf8
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import as_integer

MAX_NAME = 256
MAX_LABEL = 64
"""Characters of the name of a loader, which goes into logs."""


def within(name: str, value: object, low: int, high: int, otherwise: str = "") -> int:
    """Return an argument as an integer.

    Args:
        name: the argument's name, for messages.
        value: the value that the caller gave.
        low: the smallest allowed value.
        high: the greatest allowed value.
        otherwise: other allowed values, for messages.

    Raises:
        UsageError: it is not an integer, or out of bounds.
    """
    number = as_integer(value)
    if number is None:
        raise UsageError(
            f"{name}={value!r}: expected an integer from {low} to {high}{otherwise}, "
            f"got {type(value).__name__}"
        )
    if not low <= number <= high:
        raise UsageError(f"{name}={number}: expected an integer from {low} to {high}{otherwise}")
    return number


def flag(name: str, value: object) -> bool:
    """Return a switch; a text such as "false" would be true.

    Raises:
        UsageError: it is not one.
    """
    if not isinstance(value, numbers.Number | np.bool_) or value not in (0, 1):
        is_block = isinstance(value, str) and value == "block"
        hint = "; for a block shuffle give Shuffle(block_size=...)" if is_block else ""
        raise UsageError(f"{name}={value!r}: expected True or False{hint}")
    return bool(value)


def name_of(name: str, value: object) -> str:
    """Return an argument that is a name.

    Raises:
        UsageError: it is not text, too long, or not UTF-8.
    """
    if not isinstance(value, str) or len(value) > MAX_NAME or not is_utf8(value):
        raise UsageError(
            f"{name}={value!r}: expected text of at most {MAX_NAME} characters, in UTF-8"
        )
    return value


def label_of(name: str, value: object) -> str:
    """Return an argument that logs show; None is the empty text.

    Raises:
        UsageError: it is not text, is empty or too long, or has characters that cannot be printed.
    """
    if value is None:
        return ""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_LABEL or not value.isprintable():
        raise UsageError(
            f"{name}={value!r:.200}: expected 1 to {MAX_LABEL} printable characters, or None"
        )
    return value


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return an argument that is one of some texts.

    Raises:
        UsageError: it is another.
    """
    if not isinstance(value, str) or value not in choices:
        raise UsageError(f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}")
    return value
