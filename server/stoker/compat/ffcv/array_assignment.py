"""`array[i] = values` inside an operation, copied in runs of bytes.

numba copies such values element by element, which took nine tenths of the time of the operation in
FFCV's guide, and writes a text for its error at run time, which takes most of the time to compile
the operation. If a row of contiguous memory gets an array, this module copies runs of bytes that
are contiguous on both sides, or single elements; an array of another dtype is converted first.
Everything else (numbers, slices as targets) is assigned by numba. The bytes are the same. Imports
numba.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload, register_jitable
from numba.np.numpy_support import as_dtype

NUMBERS: Final = (types.Integer, types.Float, types.Boolean)


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


@intrinsic
def _copy_element(typingctx: Any, row: Any, target: Any, source: Any) -> Any:
    """Copy an element of the dtype of `row` between two addresses."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = context.get_data_type(row.dtype).as_pointer()
        into, out_of = (builder.inttoptr(address, pointer) for address in args[1:])
        builder.store(builder.load(out_of, align=1), into, align=1)
        return context.get_dummy_value()

    return types.void(row, types.intp, types.intp), codegen


copy_element: Any = _copy_element


@register_jitable
def copy_runs(row: Any, value: Any, shared: bool) -> None:
    """Copy a value, broadcast to the shape of contiguous memory, that shares no byte with it.

    Args:
        row: C-contiguous.
        value: of the same dtype, with as many sides or fewer; each fits, or is 1.
        shared: whether all sides are equal, so that runs can span them.
    """
    missing, item = row.ndim - value.ndim, row.itemsize
    run, axis = item, row.ndim
    while shared and axis > 0 and value.strides[axis - 1] == run:
        axis -= 1
        run *= row.shape[axis]
    target, source = row.ctypes.data, value.ctypes.data
    inner, step = 1, 0
    if axis > 0:
        inner = row.shape[axis - 1]
        step = _step(row, value, axis - 1, missing)
    for block in range(row.size * item // (run * max(inner, 1))):
        offset, rest = 0, block
        for side in range(axis - 2, -1, -1):
            offset += rest % row.shape[side] * _step(row, value, side, missing)
            rest //= row.shape[side]
        start = source + offset  # no divisions from here: they take as long as a short copy
        if run == item:
            for place in range(inner):
                copy_element(row, target + place * item, start + place * step)
        else:
            for place in range(inner):
                copy_bytes(target + place * run, start + place * step, run)
        target += run * inner


@register_jitable
def _step(row: Any, value: Any, side: int, missing: int) -> int:
    """Return the bytes between neighbors of a value along a side of the row; 0 if it repeats."""
    own = side - missing
    if own < 0 or value.shape[own] != row.shape[side]:
        return 0
    return int(value.strides[own])


@register_jitable
def copy_array(row: Any, value: Any) -> None:
    """Do `row[...] = value` for contiguous memory and an array of the same dtype.

    Raises:
        ValueError: the value cannot be broadcast to the row's shape.
    """
    shared = value.ndim == row.ndim
    low, high = 0, value.itemsize
    for side in range(value.ndim):
        if value.shape[side] != row.shape[side + row.ndim - value.ndim]:
            if value.shape[side] != 1:
                raise ValueError(
                    "the array cannot be broadcast to the shape that it is assigned to"
                )
            shared = False
        reach = (value.shape[side] - 1) * value.strides[side]
        low, high = low + min(reach, 0), high + max(reach, 0)
    if row.size == 0:
        return
    size = row.size * row.itemsize
    source, target = value.ctypes.data, row.ctypes.data
    if source + high <= target or target + size <= source + low:
        copy_runs(row, value, shared)
    else:
        spare = np.empty(row.shape, row.dtype)
        copy_runs(spare, value, shared)
        copy_bytes(target, spare.ctypes.data, size)


@overload(assign)
def _assign(target: Any, index: Any, value: Any) -> Any:
    whole = all(isinstance(item, types.Integer) for item in index)
    arrays = isinstance(target, types.Array) and isinstance(value, types.Array)
    if whole and arrays and target.layout == "C" and 0 < value.ndim <= target.ndim - len(index):
        if target.dtype == value.dtype:

            def alike(target: Any, index: Any, value: Any) -> None:
                copy_array(target[index], value)

            return alike
        if isinstance(target.dtype, NUMBERS) and isinstance(value.dtype, NUMBERS):
            dtype = as_dtype(target.dtype)

            def converted(target: Any, index: Any, value: Any) -> None:
                copy_array(target[index], value.astype(dtype))

            return converted
    if len(index) == 1:

        def one(target: Any, index: Any, value: Any) -> None:
            target[index[0]] = value

        return one

    def several(target: Any, index: Any, value: Any) -> None:
        target[index] = value

    return several
