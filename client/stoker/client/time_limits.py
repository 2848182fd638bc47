"""Checks of arguments that are times: each returns the time, or raises a UsageError."""

import math
import numbers

from stoker.protocol.errors import UsageError

MOST_SECONDS = 1e6
"""The longest wait: poll(2) takes its time in milliseconds, as an int."""


def seconds(name: str, value: object) -> float | None:
    """Return an argument that is a positive time, or None.

    Raises:
        UsageError: it is neither.
    """
    if value is None:
        return None
    number = _real(value)
    if not 0 < number < math.inf:
        raise UsageError(f"{name}={value!r}: expected a positive number of seconds, or None")
    return number


def wait_s(name: str, value: object) -> float:
    """Return an argument that is the longest time to wait for something.

    Raises:
        UsageError: it is not such a time.
    """
    number = _real(value)
    if not 0 < number <= MOST_SECONDS:
        raise UsageError(
            f"{name}={value!r}: expected a positive number of seconds, at most {MOST_SECONDS:,.0f}"
        )
    return number


def _real(value: object) -> float:
    """Return a number as a float; NaN for anything else."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
