"""Checks of op parameters: each returns the value in its one canonical form, or raises.

Equal parameters get the same form (`size=224` and `size=(224, 224)`, `p=1` and `p=1.0`), so that
they give the same pipeline. A message names op, parameter, what was expected and what came.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from stoker.ops.contract.states import ParameterError

ATTEMPTS: Final = 10
MOST_CHANNELS: Final = 16
LOWEST_RATIO: Final = 2.0**-16
"""Ratios between this and MAX_SIDE cover every box, and keep the arithmetic finite."""

MAX_SIDE = 65_535
"""Maximum height or width, in pixels; keeps every offset and product within int32 and int64."""

FLOAT_MAX = (2.0 - 2.0**-23) * 2.0**127
"""Maximum float32."""

Pair = int | tuple[int, int]
Numbers = float | tuple[float, ...]


def refuse(op: str, parameter: str, expected: str, got: object) -> ParameterError:
    """Return the error for a parameter that is not as expected."""
    return ParameterError(f"{op}: expected {parameter} to be {expected}, got {got!r}", op=op)


def is_integer(value: object) -> bool:
    """Return whether a value is an integer but not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Return whether a value is a finite number but not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def pair(
    op: str,
    parameter: str,
    value: object,
    lowest: int,
    most: int = MAX_SIDE,
    sides: str = "height, width",
) -> tuple[int, int]:
    """Return (height, width) of a side or a pair of sides.

    Raises:
        ParameterError: it is not a pair, or a side is outside of [lowest, most].
    """
    both = tuple(value) if isinstance(value, Sequence) else (value, value)
    if len(both) == 2 and all(is_integer(s) and lowest <= s <= most for s in both):
        return int(both[0]), int(both[1])
    expected = f"an integer, or ({sides}), from {lowest} to {most}"
    raise refuse(op, parameter, expected, value)


def number(op: str, parameter: str, value: object, low: float, high: float) -> float:
    """Return a number as float.

    Raises:
        ParameterError: it is not a finite number, or is outside of [low, high].
    """
    if is_number(value) and low <= float(value) <= high:  # type: ignore[arg-type]
        return float(value)  # type: ignore[arg-type]
    raise refuse(op, parameter, f"a number from {low:g} to {high:g}", value)


def integer(op: str, parameter: str, value: object, low: int, high: int) -> int:
    """Return an integer.

    Raises:
        ParameterError: it is not an integer, or is outside of [low, high].
    """
    if is_integer(value) and low <= value <= high:  # type: ignore[operator]
        return int(value)  # type: ignore[call-overload, no-any-return]
    raise refuse(op, parameter, f"an integer from {low} to {high}", value)


def interval(
    op: str, parameter: str, value: object, low: float, high: float
) -> tuple[float, float]:
    """Return (lower, upper), both with low < lower <= upper <= high.

    Raises:
        ParameterError: it is not such a pair.
    """
    ends: tuple[Any, ...] = tuple(value) if isinstance(value, Sequence) else ()
    if len(ends) == 2 and all(is_number(e) for e in ends) and low < ends[0] <= ends[1] <= high:
        return float(ends[0]), float(ends[1])
    bounds = f"above {low:g}" + (f" and at most {high:g}" if math.isfinite(high) else "")
    raise refuse(op, parameter, f"(low, high) with low <= high, {bounds}", value)


def span(op: str, parameter: str, value: object, low: float, high: float) -> tuple[float, float]:
    """Return (lower, upper), both with low <= lower <= upper <= high.

    Raises:
        ParameterError: it is not such a pair.
    """
    ends: tuple[Any, ...] = tuple(value) if isinstance(value, Sequence) else ()
    if len(ends) == 2 and all(is_number(e) for e in ends) and low <= ends[0] <= ends[1] <= high:
        return float(ends[0]), float(ends[1])
    raise refuse(op, parameter, f"(low, high) with low <= high, from {low:g} to {high:g}", value)


def numbers(op: str, parameter: str, value: object, positive: bool = False) -> tuple[float, ...]:
    """Return one number for all channels, or one for each, as a tuple of 1 to 16 floats.

    Raises:
        ParameterError: there are not 1 to 16 of them, one is not finite, or not positive if
            required.
    """
    items: tuple[Any, ...] = tuple(value) if isinstance(value, Sequence) else (value,)
    if 1 <= len(items) <= MOST_CHANNELS and all(
        is_number(v) and (v > 0 or not positive) for v in items
    ):
        return tuple(float(v) for v in items)
    what = "positive number" if positive else "number"
    raise refuse(
        op, parameter, f"a {what}, or one for each of at most {MOST_CHANNELS} channels", value
    )


def levels(op: str, parameter: str, value: object) -> tuple[float, ...]:
    """Return one level for all channels, or one for each, as a tuple of 1 to 16 numbers.

    Integers from 0 to 255 are levels of any image, and are returned as integers; larger integers
    are levels of images of uint16, negative ones numbers of images of int16, and other floats of
    images of float32.

    Raises:
        ParameterError: the number of items is not from 1 to 16, one is an integer outside of
            [-32768, 65535], or one is not a number that float32 can hold.
    """
    items: tuple[Any, ...] = tuple(value) if isinstance(value, Sequence) else (value,)
    if 1 <= len(items) <= MOST_CHANNELS and all(
        is_number(v) and abs(v) <= FLOAT_MAX for v in items
    ):
        found = tuple(int(v) if v == int(v) and 0 <= v <= 255 else v for v in items)
        if all(isinstance(v, float) or -32768 <= v <= 65535 for v in found):
            return found
    expected = (
        "an integer from 0 to 255 (65535 for images of uint16, -32768 to 32767 for int16), or a "
        "float for images of floats, or one for each channel"
    )
    raise refuse(op, parameter, expected, value)


def choice(op: str, parameter: str, value: object, options: tuple[str, ...]) -> str:
    """Return a word of a fixed list.

    Raises:
        ParameterError: it is not in the list.
    """
    if isinstance(value, str) and value in options:
        return value
    raise refuse(op, parameter, f"one of {', '.join(options)}", value)


def integer_span(op: str, parameter: str, value: object, low: int, high: int) -> tuple[int, int]:
    """Return (lower, upper), integers with low <= lower <= upper <= high.

    Raises:
        ParameterError: it is not such a pair.
    """
    ends: tuple[Any, ...] = tuple(value) if isinstance(value, Sequence) else ()
    if len(ends) == 2 and all(is_integer(e) for e in ends) and low <= ends[0] <= ends[1] <= high:
        return int(ends[0]), int(ends[1])
    expected = f"(low, high), integers with {low} <= low <= high <= {high}"
    raise refuse(op, parameter, expected, value)


def spread(op: str, parameter: str, value: object, most: float) -> tuple[float, float]:
    """Return (low, high) of a range around 0: a number d means (-d, d).

    Raises:
        ParameterError: it is neither, or leaves [-most, most].
    """
    ends: tuple[Any, ...] = tuple(value) if isinstance(value, Sequence) else ()
    if is_number(value) and 0 <= value <= most:  # type: ignore[operator]
        return -float(value), float(value)  # type: ignore[arg-type]
    whole = len(ends) == 2 and all(is_number(end) for end in ends)
    if whole and -most <= ends[0] <= ends[1] <= most:
        return float(ends[0]), float(ends[1])
    expected = (
        f"a number from 0 to {most:g}, or (low, high) with -{most:g} <= low <= high <= {most:g}"
    )
    raise refuse(op, parameter, expected, value)


def class_numbers(op: str, parameter: str, value: object, most: int) -> tuple[int, ...]:
    """Return a class number or several, each once, in ascending order.

    Raises:
        ParameterError: one is not an integer of int32, or there are more than `most`.
    """
    given = tuple(value) if isinstance(value, tuple | list) else (value,)
    good = all(is_integer(one) and -(2**31) <= one < 2**31 for one in given)
    if not good or len(given) > most:
        expected = f"a class number (an integer of int32) or at most {most} of them"
        raise refuse(op, parameter, expected, value)
    return tuple(sorted(set(given)))
