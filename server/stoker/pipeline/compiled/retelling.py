"""Re-runs a failed row in the interpreter to find which op, sample and line raised.

Machine code reports neither the place nor the row. The interpreter computes the same, so it raises
the same, with all of these; it computes at most a few rows, once, before a stream stops.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from stoker.pipeline.engine.interface import Freeze
from stoker.pipeline.engine.sample_faults import raised_error
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.errors import StokerError
from stoker.rng.row import Row, row_of


class MachineRaised(Exception):
    """Wraps an exception raised inside compiled code; `error` is that exception."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def retold(
    plan: Plan, freeze: Freeze, rows: Iterable[tuple[Row, Sequence[Any]]], error: Exception
) -> StokerError:
    """Return the error that the interpreter raises for the first row that fails.

    Args:
        plan: the plan.
        freeze: the freezes of the run.
        rows: rows that include the failed one, in order, with their inputs.
        error: the exception of machine code; returned unchanged if the interpreter does not raise.
    """
    outputs = [np.empty(output.shape, output.dtype) for output in plan.outputs]
    engine = Interpreter(plan, freeze)
    for row, inputs in rows:
        try:
            engine.run(row, inputs, outputs)
        except StokerError as failure:
            return failure
    return raised_error(plan, error)


def suspects(
    rows: np.ndarray, samples: np.ndarray, sides: np.ndarray, made: np.ndarray, plan: Plan
) -> list[tuple[Row, list[np.ndarray]]]:
    """Return the row of a chunk in which machine code last made a decision, and the next one.

    Args:
        rows: in the form that the machine got, like samples and sides.
        samples: addresses of the samples of each row.
        sides: the sides of each field.
        made: for each decision, 1 plus the last row that made it, 0 for none.
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
