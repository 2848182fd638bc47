"""What machine code raised, told by the interpreter: which op, sample and line it was.

Machine code says neither where it was nor on which row. The interpreter computes the same, so it
raises the same, with all of that; a few rows at most are computed by it, once, before a stream
stops. numba-free.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from stoker.pipeline.engine.faults import raised_error
from stoker.pipeline.engine.interface import Freeze
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.errors import StokerError
from stoker.rng.row import Row, row_of


class MachineRaised(Exception):
    """Machine code raised; `error` is what."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def retold(
    plan: Plan, freeze: Freeze, rows: Iterable[tuple[Row, Sequence[Any]]], error: Exception
) -> StokerError:
    """Return the error that the interpreter raises for the first row that fails.

    Args:
        plan: the plan.
        freeze: what was frozen.
        rows: those among which the one that failed is, in order, with their inputs.
        error: what machine code raised; it is told as it is where the interpreter raises nothing.
    """
    outputs = [np.empty(output.shape, output.dtype) for output in plan.outputs]
    engine = Interpreter(plan, freeze)
    for row, inputs in rows:
        try:
            engine.run(row, inputs, outputs)
        except StokerError as told:
            return told
    return raised_error(plan, error)


def suspects(
    rows: np.ndarray, samples: np.ndarray, sides: np.ndarray, made: np.ndarray, plan: Plan
) -> list[tuple[Row, list[np.ndarray]]]:
    """Return the row of a chunk in which machine code last made a decision, and the one after it.

    Args:
        rows: as the machine got them, as are samples and sides.
        samples: addresses of the samples of each row.
        sides: of each field.
        made: for each decision, 1 more than the last row that made it, 0 for none.
        plan: the plan.
    """
    last = max(int(made.max(initial=0)) - 1, 0)
    found = []
    for place in range(last, min(last + 2, len(rows))):
        inputs = [
            _array(int(samples[column, place]), state.dtype, sides[column, : len(state.shape)])
            for column, state in enumerate(plan.inputs)
        ]
        found.append((row_of(rows[place]), inputs))
    return found


def _array(address: int, dtype: str, sides: np.ndarray) -> np.ndarray:
    shape, kind = tuple(sides.tolist()), np.dtype(dtype)
    memory = (ctypes.c_uint8 * (int(np.prod(shape)) * kind.itemsize)).from_address(address)
    return np.ndarray(shape, kind, buffer=memoryview(memory))
