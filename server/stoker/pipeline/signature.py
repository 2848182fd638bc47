"""The types of compiled functions, from states alone: what glue and kernels are called with.

Imports numba; used only while a plan is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, types

from stoker.ops.contract import Op, State
from stoker.ops.records import machine_record
from stoker.pipeline.plan import Plan
from stoker.pipeline.steps import StoreSizedStep
from stoker.pipeline.tables import params_table, physical, physical_rank, records_table

_tuple: Any = types.UniTuple
KEY = _tuple(types.uint64, 5)
SCRATCH = types.Array(types.uint8, 1, "C")
SIZES = _tuple(types.int64, 4)
MAP = _tuple(types.float64, 9)
ITEMS = types.Array(types.uint32, 2, "C")


def glue_types(plan: Plan) -> tuple[Any, ...]:
    """Return the argument types of a plan's glue; inputs may be read-only."""
    table = [
        types.Array(from_dtype(t.dtype), 1, "C")
        for t in (params_table(plan.decisions), records_table(plan.decisions))
    ]
    ins = [_array(s.dtype, len(s.shape) + 1, readonly=True) for s in plan.inputs]
    outs = [_array(o.dtype, len(o.shape) + 1) for o in plan.outputs]
    return (
        types.Array(types.uint64, 2, "C"),
        types.Array(types.int64, 1, "C"),
        types.Array(types.int64, 1, "C"),
        types.Array(types.float64, 1, "C"),
        types.Array(types.uint64, 2, "C"),
        *table,
        SCRATCH,
        types.Array(types.int64, 1, "C"),
        *ins,
        *outs,
    )


def store_types(plan: Plan, step: StoreSizedStep) -> tuple[Any, ...]:
    """Return the types of an output with a form and of its sizes, as the glue has them."""
    outputs = plan.outputs[step.output : step.output + 2]
    return tuple(_array(o.dtype, len(o.shape) + 1) for o in outputs)


def view_type(state: State) -> Any:
    """Return the type of the view of a value that a kernel gets."""
    return _array(state.dtype, physical_rank(state))


def record_type(dtype: np.dtype[Any]) -> Any:
    """Return the type of one parameter or draw record."""
    return from_dtype(machine_record(dtype))


def draw_types(op: type[Op]) -> tuple[Any, ...]:
    """Return the argument types of an op's `draw`."""
    params, record = record_type(op.parameters), record_type(op.record)
    items = (ITEMS,) if op.draws_from else ()
    return (KEY, params, types.int64, types.int64, record, *items)


def _array(dtype: str, rank: int, *, readonly: bool = False) -> Any:
    return types.Array(from_dtype(np.dtype(physical(dtype))), rank, "C", readonly=readonly)
