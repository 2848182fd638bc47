"""Tables of a plan that an engine reads and writes: op parameters, records, stream keys, freezes.

The program (`compiled.program`) describes their use. The interpreter uses them too, for
parameters and records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from stoker.ops.contract.machine_records import machine_record
from stoker.ops.contract.states import State
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.op_declarations import params_of
from stoker.rng.streams import stream_key

ONES: Final = 2**64 - 1
VISITS: Final = ONES - (2**16 - 1)
"""Mask of a key's lane that keeps the visit and sets the view to 0."""
RECORD_ALIGN: Final = 16


def physical(dtype: str) -> str:
    """Return the dtype in which kernels see a value: float16 is uint16, its bit pattern."""
    return "uint16" if dtype == "float16" else dtype


def fill_number(fill: int | float, dtype: str) -> int | float:
    """Return the number to store for an output's fill: for float16 its bits."""
    if dtype == "float16":
        return int(np.float16(fill).view(np.uint16))
    return float(fill) if np.dtype(dtype).kind == "f" else int(fill)


def physical_rank(state: State) -> int:
    """Return the rank in which kernels see a value: a scalar is (1,)."""
    return max(len(state.shape), 1)


def params_table(decisions: Sequence[Decision]) -> np.ndarray:
    """Return the parameters of all decisions, (1,) structured with fields d0, d1, ..."""
    table = np.zeros(1, _nested([d.op.parameters for d in decisions]))
    for decision in decisions:
        table[f"d{decision.index}"] = params_of(decision.op)
    return table


def records_table(decisions: Sequence[Decision]) -> np.ndarray:
    """Return empty records of all decisions, (1,) structured with fields d0, d1, ..."""
    return np.zeros(1, _nested([d.op.record for d in decisions]))


def streams_table(
    decisions: Sequence[Decision], freeze: Mapping[str, int | Literal["epoch"]]
) -> np.ndarray:
    """Return (decisions, 5) uint64: key word, id mask, frozen id, epoch mask, lane mask.

    A freeze f gives (0, f, 0, 0): the id becomes f, epoch and lane become 0. "epoch" clears the
    epoch.
    """
    table = np.zeros((max(len(decisions), 1), 5), np.uint64)
    for decision in decisions:
        if decision.stream is None:
            continue
        frozen = freeze.get(decision.stream)
        words = [stream_key(decision.stream), ONES, 0, ONES, VISITS if decision.shared else ONES]
        if frozen == "epoch":
            words[3] = 0
        elif frozen is not None:
            words[1:] = [0, int(frozen), 0, 0]
        table[decision.index] = [np.uint64(word) for word in words]
    return table


def as_record(table: np.ndarray, index: int) -> Any:
    """Return the sub-record of a decision in a table, a live view with items and attributes."""
    column = table[f"d{index}"]
    return column.view(np.dtype((np.record, column.dtype)))[0]


def plain_record(table: np.ndarray, decision: Decision) -> dict[str, Any]:
    """Return a decision's record as Python numbers and lists."""
    values = table[f"d{decision.index}"][0]
    names = decision.op.record.names or ()
    return {name: values[name].tolist() for name in names if name != "none"}


def aligned_arena(size: int, align: int) -> np.ndarray:
    """Return (size,) uint8 whose first byte is at a multiple of `align`."""
    raw = np.zeros(size + align, np.uint8)
    start = -raw.ctypes.data % align
    return raw[start : start + size]


def _nested(dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    names, offsets, end = [], [], 0
    for index, dtype in enumerate(dtypes):
        names.append(f"d{index}")
        offsets.append(end)
        end += -(-dtype.itemsize // RECORD_ALIGN) * RECORD_ALIGN
    if not names:
        return np.dtype([("none", "u1")])
    return np.dtype(
        {
            "names": names,
            "formats": [machine_record(d) for d in dtypes],
            "offsets": offsets,
            "itemsize": end,
        }
    )
