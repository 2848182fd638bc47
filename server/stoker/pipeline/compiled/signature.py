"""The argument types of compiled draws and kernels, derived from states alone.

Imports numba; used only while a plan is compiled.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import from_dtype, types

from stoker.ops.contract.machine_records import machine_record
from stoker.ops.contract.op import Op
from stoker.ops.contract.states import State
from stoker.pipeline.compiled.kernel_calls import Call
from stoker.pipeline.planning.engine_tables import physical, physical_rank

_tuple: Any = types.UniTuple
KEY = _tuple(types.uint64, 5)
SCRATCH = types.Array(types.uint8, 1, "C")
NOTE = types.Array(types.int64, 1, "C")
PAIR = _tuple(types.int64, 2)
SIZES = _tuple(types.int64, 4)
STEPS = _tuple(types.int64, 6)
MAP = _tuple(types.float64, 9)
ITEMS = types.Array(types.uint32, 2, "C")


def call_types(call: Call) -> tuple[Any, ...]:
    """Return the argument types of a call."""
    records = record_type(call.parameters), record_type(call.record)
    if call.form == "draw":
        return (KEY, records[0], types.int64, types.int64, records[1])
    last = NOTE if call.form == "note" else SCRATCH
    counts = (types.int64, types.int64) if call.form == "fold" else ()
    return (view_type(call.src), *counts, view_type(call.dst), *records, last)


def view_type(state: State) -> Any:
    """Return the type of a kernel's view of a value."""
    element = from_dtype(np.dtype(physical(state.dtype)))
    return types.Array(element, physical_rank(state), "C")


@functools.lru_cache(512)
def record_type(dtype: np.dtype[Any]) -> Any:
    """Return the type of one parameter or draw record."""
    return from_dtype(machine_record(dtype))


def draw_types(op: type[Op]) -> tuple[Any, ...]:
    """Return the argument types of an op's `draw`."""
    params, record = record_type(op.parameters), record_type(op.record)
    items = (ITEMS,) if op.draws_from else ()
    return (KEY, params, types.int64, types.int64, record, *items)
