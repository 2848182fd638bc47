"""Addresses, and tests and copies of short runs of memory."""

from typing import Any

import numba
import numba.extending
from llvmlite import ir

from stoker.dataset.images.jpeg.decoding.simd.building import (
    I1,
    I8,
    I16,
    I64,
    bytes_at,
    constant,
    load,
    number,
    store,
)

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic

BYTES = 32


@intrinsic  # type: ignore[untyped-decorator]
def address(_context: Any, array: Any) -> Any:
    """Return the address of an array's memory."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = bytes_at(builder, context, signature.args[0], arguments[0], number(0))
        return builder.ptrtoint(first, I64)

    return types.int64(array), build


@intrinsic  # type: ignore[untyped-decorator]
def copy_32(_context: Any, data: Any, at: Any, plain: Any, to: Any) -> Any:
    """Copy 32 bytes; return the place of the first 0xFF among them, or 32."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, at, plain, to = arguments
        source = bytes_at(builder, context, signature.args[0], data, at)
        some = load(builder, source, ir.VectorType(I8, BYTES))
        store(builder, some, bytes_at(builder, context, signature.args[2], plain, to))
        found = builder.icmp_unsigned("==", some, constant(I8, [255] * BYTES))
        mask = builder.zext(builder.bitcast(found, ir.IntType(BYTES)), I64)
        mask = builder.or_(mask, number(1 << BYTES))
        return builder.cttz(mask, number(1, I1))

    return types.int64(data, types.int64, plain, types.int64), build


@intrinsic  # type: ignore[untyped-decorator]
def is_sparse(_context: Any, coefficients: Any, at: Any) -> Any:
    """Return whether the coefficients of a block are zero from the eleventh on."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        coefficients, at = arguments
        kind, total = ir.VectorType(I16, 16), None
        for first in (10, 26, 42, 48):  # 54 coefficients: the last two vectors overlap
            place = builder.shl(builder.add(at, number(first)), number(1))
            some = load(
                builder, bytes_at(builder, context, signature.args[0], coefficients, place), kind
            )
            total = some if total is None else builder.or_(total, some)
        filled = builder.icmp_unsigned("!=", total, constant(I16, [0] * 16))
        return builder.icmp_unsigned("==", builder.bitcast(filled, I16), number(0, I16))

    return types.boolean(coefficients, types.int64), build
