"""What rules of parameters are made of: limits, tests of single numbers, and the error."""

import math
from typing import Final, TypeGuard

from stoker.ops.contract.states import ParameterError

ATTEMPTS: Final = 10
MOST_CHANNELS: Final = 16
LOWEST_RATIO: Final = 2.0**-16
"""Ratios between this and MAX_SIDE cover every box, and keep the arithmetic finite."""

MAX_SIDE: Final = 65_535
"""Maximum height or width, in pixels; keeps every offset and product within int32 and int64."""

FLOAT_MAX: Final = (2.0 - 2.0**-23) * 2.0**127
"""Maximum float32."""


def refuse(op: str, parameter: str, expected: str, got: object) -> ParameterError:
    """Return the error for a parameter that is not as expected."""
    return ParameterError(f"{op}: expected {parameter} to be {expected}, got {got!r}", op=op)


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer but not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number but not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
