"""`array[i] = values` inside an operation, copied in runs of bytes.

numba copies such values element by element, which took nine tenths of the time of the operation in
FFCV's guide. If both sides have one dtype and one shape, and the values consist of contiguous runs
of at least `LEAST_RUN` bytes, whole runs are copied; everything else (other dtypes, broadcasting,
mirrored or overlapping values) is assigned by numba. The bytes are the same. Imports numba.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable

LEAST_RUN: Final = 16


def assign(target: Any, index: tuple[Any, ...], value: Any) -> None:
    """Do `target[index] = value`."""
    target[index if len(index) > 1 else index[0]] = value


@intrinsic
def _copy_bytes(typingctx: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy `count` bytes between two addresses."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        into, out_of = (builder.inttoptr(address, pointer) for address in args[:2])
        raw_memcpy: Any = cgutils.raw_memcpy
        raw_memcpy(builder, into, out_of, args[2], 1)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), codegen


copy_bytes: Any = _copy_bytes


@register_jitable
def copied_in_runs(row: Any, value: Any) -> bool:
    """Copy a value to contiguous memory of its shape if it consists of long runs; else False."""
    run, axis, low, high = value.itemsize, value.ndim, 0, value.itemsize
    for side in range(value.ndim):
        reach = (value.shape[side] - 1) * value.strides[side]
        low, high = low + min(reach, 0), high + max(reach, 0)
    while axis > 0 and value.strides[axis - 1] == run:
        axis -= 1
        run *= value.shape[axis]
    size = row.size * row.itemsize
    source, target = value.ctypes.data, row.ctypes.data
    apart = source + high <= target or target + size <= source + low
    if run < LEAST_RUN or not apart:
        return False
    inner, step = (value.shape[axis - 1], value.strides[axis - 1]) if axis > 0 else (1, 0)
    for block in range(size // (run * max(inner, 1))):
        offset, rest = 0, block
        for side in range(axis - 2, -1, -1):
            offset += rest % value.shape[side] * value.strides[side]
            rest //= value.shape[side]
        for _ in range(inner):  # divisions would take as long as a short copy
            copy_bytes(target, source + offset, run)
            target, offset = target + run, offset + step
    return True


@overload(assign)
def _assign(target: Any, index: Any, value: Any) -> Any:
    whole = all(isinstance(item, types.Integer) for item in index)
    arrays = isinstance(target, types.Array) and isinstance(value, types.Array)
    alike = arrays and target.layout == "C" and target.dtype == value.dtype
    if whole and alike and 0 < value.ndim == target.ndim - len(index):

        def in_runs(target: Any, index: Any, value: Any) -> None:
            row = target[index]
            if row.shape != value.shape or not copied_in_runs(row, value):
                target[index] = value

        return in_runs
    if len(index) == 1:

        def one(target: Any, index: Any, value: Any) -> None:
            target[index[0]] = value

        return one

    def several(target: Any, index: Any, value: Any) -> None:
        target[index] = value

    return several
