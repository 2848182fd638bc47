"""Expressions v1: scalars computed from scalars, with the same bits interpreted and compiled.

There are three types: bool, int64, float64. A field of another dtype is widened first (uint64 is
refused because it does not fit). When arithmetic or a comparison combines int64 and float64, the
int64 becomes float64. int64 arithmetic wraps; `x // 0` and `x % 0` are 0 for integers, `//` rounds
down and `%` has the sign of the divisor, as in Python; `//` and `%` of floats are refused. `/`
gives a float64 by IEEE 754 (x / 0 is an infinity or NaN). bools count as 0 and 1 in arithmetic.
`and`, `or`, `not` use the truth of both sides (a number is true if it is not 0) and give a bool;
they do not short-circuit.
"""

from __future__ import annotations

import operator
from typing import Any, Final

import numpy as np

from stoker.protocol.errors import BuildError

COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")
LOGIC: Final = ("and", "or", "not")
_OF_INTEGERS: Final = {"floordiv": "//", "mod": "%"}

_MASK: Final = 2**64
_HALF: Final = 2**63


def widened(dtype: str) -> str:
    """Return which of bool, int64, float64 a scalar of that dtype becomes.

    Raises:
        BuildError: it fits none of them.
    """
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return "bool"
    if kind.kind == "f" and kind.itemsize > 2:
        return "float64"
    if kind.kind in "iu" and kind != np.uint64:
        return "int64"
    raise BuildError(f"a scalar of dtype {dtype} cannot be used in an expression or condition")


def type_of(value: bool | int | float) -> str:
    """Return the type of a Python number."""
    if isinstance(value, bool):
        return "bool"
    return "int64" if isinstance(value, int) else "float64"


def result_type(op: str, types: list[str]) -> str:
    """Return the type of an expression with arguments of these types.

    Raises:
        BuildError: the expression has no rule for them.
    """
    if op in COMPARISONS or op in LOGIC:
        return "bool"
    if "float64" in types and op in _OF_INTEGERS:
        raise BuildError(f"{_OF_INTEGERS[op]} takes integers; use / and a comparison instead")
    return "float64" if op == "div" or "float64" in types else "int64"


def evaluate(op: str, values: list[Any], types: list[str]) -> Any:
    """Compute an expression as plain Python; gives a bool, int or float."""
    if op in LOGIC:
        truths = [value != 0 for value in values]
        return not truths[0] if op == "not" else (all if op == "and" else any)(truths)
    if "float64" in types or op == "div":
        floats = [float(value) for value in values]
        return _compared(op, floats) if op in COMPARISONS else _ieee(op, *floats)
    integers = [int(value) for value in values]
    return _compared(op, integers) if op in COMPARISONS else _integers(op, *integers)


def _compared(op: str, values: list[Any]) -> bool:
    return bool(getattr(operator, op)(*values))


def _ieee(op: str, left: float, right: float = 0.0) -> float:
    if op == "neg":
        return -left
    with np.errstate(all="ignore"):
        name = "truediv" if op == "div" else op
        return float(getattr(operator, name)(np.float64(left), np.float64(right)))


def _integers(op: str, left: int, right: int = 0) -> int:
    if op == "neg":
        return _wrap(-left)
    if op in _OF_INTEGERS:
        return 0 if right == 0 else _wrap(getattr(operator, op)(left, right))
    return _wrap(getattr(operator, op)(left, right))


def _wrap(value: int) -> int:
    return (value + _HALF) % _MASK - _HALF
