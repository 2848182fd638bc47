"""Scalars of a plan as Python expressions, with the numbers of `stoker.pipeline.graph.expressions`.

A float64 is Python's; of an int64 `whole` keeps 64 bits, and division is said by helpers, as by
zero Python raises. `HELPERS` is their text. numba-free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from stoker.pipeline.graph.expressions import ARITHMETIC, COMPARISONS
from stoker.pipeline.graph.schedule import FACTS, Entry, Schedule

HELPERS: Final = '''\
def number(value):
    """Return a scalar as a Python number; one of the sample lies in an array of one element."""
    found = value[0] if isinstance(value, np.ndarray) else value
    return found.item() if isinstance(found, np.generic) else found


def whole(value):
    """Return an integer that wraps round as 64 bits do."""
    return (int(value) + 2**63) % 2**64 - 2**63


def divided(left, right):
    """Return a quotient; by zero it is an infinity or nan."""
    return float(np.float64(left) / np.float64(right))
'''
_CASTS: Final = {"bool": "bool", "int64": "int", "float64": "float"}


def expression(op: str, args: Sequence[str], types: Sequence[str]) -> str:
    """Return an expression over scalars as Python.

    Args:
        op: as `stoker.pipeline.graph.expressions.evaluate` has it.
        args: text of each operand, a number.
        types: bool, int64 or float64 of each.
    """
    if op == "not":
        return f"{args[0]} == 0"
    if op in ("and", "or"):
        return f" {op} ".join(f"{arg} != 0" for arg in args)
    if "float64" in types:
        pairs = zip(args, types, strict=True)
        args = [arg if kind == "float64" else f"float({arg})" for arg, kind in pairs]
    if op in COMPARISONS:
        return f"{args[0]} {COMPARISONS[op]} {args[1]}"
    if op == "div":
        return f"divided({', '.join(args)})"
    made = f"-{args[0]}" if op == "neg" else f"{args[0]} {ARITHMETIC[op]} {args[1]}"
    if "float64" in types:
        return made
    by_zero = f" if {args[1]} else 0" if op in ("floordiv", "mod") else ""
    return f"whole({made}){by_zero}"


def formula(schedule: Schedule) -> Iterator[str]:
    """Yield the lines that compute what parameters of an op follow: `s<number> = ...`."""
    types: dict[int, str] = {}
    for entry in schedule.entries:
        yield f"s{entry.value} = {_entry(entry, types)}"
        types[entry.value] = entry.type


def parameters(schedule: Schedule) -> str:
    """Return the parameters of an op as keywords, those that are computed by name."""
    found: list[str] = []
    varies = {(name, place): f"s{value}" for name, place, value in schedule.varies}
    for name, value in schedule.params.items():
        if isinstance(value, tuple | list):
            parts = [varies.get((name, n), repr(part)) for n, part in enumerate(value)]
            found.append(f"{name}=({', '.join(parts)},)")
        else:
            found.append(f"{name}={varies.get((name, None), repr(value))}")
    return ", ".join(found)


def _entry(entry: Entry, types: dict[int, str]) -> str:
    args: list[Any] = [f"s{arg}" for arg in entry.args]
    if entry.op == "const":
        return repr(entry.constant)
    if entry.op in FACTS:
        return entry.op
    if entry.op == "choose":
        return f"{_CASTS[entry.type]}({args[1]} if {args[0]} != 0 else {args[2]})"
    return expression(entry.op, args, [types[arg] for arg in entry.args])
