"""Arithmetic on arrays, element by element: its dtypes, and its plain form.

Dtypes follow NumPy 2. A number next to an array is weak: the array keeps its dtype, unless the
number is of a higher kind (a float next to integers gives float64, an integer next to bools int64).
All numbers of a pipeline are weak, whether they are constants, fields or computed. Two arrays are
promoted. Operands are converted to the common dtype, the operation is rounded once, integers wrap.
`/` of integers gives float64. `//` and `%` are those of `graph.expressions`. Comparisons of
integers are exact for every number. Every NaN that arithmetic gives is the positive quiet one, as
processors differ in its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from stoker.pipeline.graph.expressions import COMPARISONS, LOGIC
from stoker.pipeline.graph.statistics import DTYPES
from stoker.protocol.errors import BuildError

SIGNS: Final = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "neg": "-",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
    "and": "and", "or": "or", "not": "not",
}  # fmt: skip
_OF_NUMPY: Final = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "neg": np.negative,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip


class Operand(NamedTuple):
    """An operand: the dtype of its elements, and whether it is one number."""

    dtype: str
    is_number: bool


class Rule(NamedTuple):
    """Rule of an operation: the dtype to which operands are converted, and the result's dtype."""

    compute: str
    result: str


def rule_of(op: str, operands: Sequence[Operand]) -> Rule:
    """Return the rule of an operation with at least one array.

    Raises:
        BuildError: it is not defined for these dtypes; says what to write.
    """
    for operand in operands:
        if operand.dtype not in DTYPES:
            raise BuildError(
                f"arithmetic on {operand.dtype} is not supported; use one of {', '.join(DTYPES)}, "
                "for example by ops.cast"
            )
    common = _common(operands)
    kind = np.dtype(common).kind
    if op in COMPARISONS:
        return Rule(common if kind == "f" else "int64", "bool")
    if op in LOGIC:
        if any(operand.dtype != "bool" for operand in operands):
            raise BuildError(
                "`and`, `or`, `not` and &, |, ~ of arrays take bools: compare first, as in "
                "(x > 0) & (y > 0)"
            )
        return Rule("int64", "bool")
    if op == "div":
        real = common if kind == "f" else "float64"
        return Rule(real, real)
    if op in ("floordiv", "mod") and kind == "f":
        raise BuildError("// and % take integers; use / and a comparison instead")
    if kind == "b":
        raise BuildError(
            f"{SIGNS[op]} of bools is not supported: write & (both), | (one of them) or ~ (not), "
            "or multiply one by 1"
        )
    return Rule(common, common)


def _common(operands: Sequence[Operand]) -> str:
    """Return the dtype that the operands have in common."""
    common = np.result_type(*(one.dtype for one in operands if not one.is_number)).name
    for one in operands:
        kinds = np.dtype(one.dtype).kind, np.dtype(common).kind
        if one.is_number and kinds[0] == "f" and kinds[1] != "f":
            common = "float64"
        elif one.is_number and kinds[0] in "iu" and kinds[1] == "b":
            common = "int64"
    return common


def limits(dtype: str) -> tuple[int, int]:
    """Return the least and the greatest number of an integer dtype."""
    found = np.iinfo(dtype)
    return int(found.min), int(found.max)


def compute(op: str, operands: Sequence[Any], rule: Rule) -> np.ndarray:
    """Compute an array with NumPy.

    Args:
        op: the operation.
        operands: arrays of one shape, and Python numbers.
        rule: of the operation.
    """
    given = [_converted(operand, np.dtype(rule.compute)) for operand in operands]
    with np.errstate(all="ignore"):
        made: np.ndarray = np.asarray(_OF_NUMPY[op](*given))
    if made.dtype.kind == "f":
        made[np.isnan(made)] = np.nan
    return made.astype(rule.result, copy=False)


def _converted(operand: Any, dtype: np.dtype[Any]) -> np.ndarray:
    if not isinstance(operand, np.ndarray):
        operand = np.asarray(float(operand) if dtype.kind == "f" else int(operand))
    with np.errstate(all="ignore"):
        found: np.ndarray = operand.astype(dtype)
    return found
