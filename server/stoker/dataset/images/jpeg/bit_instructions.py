"""Compiled twins of small functions on bits: each is one LLVM operation, on any processor.

Nothing is checked here: the caller stays inside of all arrays.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic
I1, I8, I16, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 64))
COEFFICIENTS = 64


@intrinsic  # type: ignore[untyped-decorator]
def places_of(_context: Any, values: Any, at: Any) -> Any:
    """Compare a block, a vector of 64 lanes, with zeros: the twin of `entropy_bits.places_of`."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, at = arguments
        data = context.make_array(signature.args[0])(context, builder, values).data
        address = builder.gep(data, [at])
        kind = ir.VectorType(I16, COEFFICIENTS)
        block = builder.load(builder.bitcast(address, kind.as_pointer()))
        block.align = 1
        zeros = ir.Constant(kind, [0] * COEFFICIENTS)
        return builder.bitcast(builder.icmp_signed("!=", block, zeros), I64)

    return types.uint64(values, types.int64), build


@intrinsic  # type: ignore[untyped-decorator]
def first_bit(_context: Any, bits: Any) -> Any:
    """Count the zeros behind the last one: the twin of `entropy_bits.first_bit`."""

    def build(_: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(I1, 1))

    return types.int64(types.uint64), build


@intrinsic  # type: ignore[untyped-decorator]
def bit_length(_context: Any, value: Any) -> Any:
    """Count the zeros before the first one: the twin of `entropy_bits.bit_length`."""

    def build(_: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        zeros = builder.ctlz(arguments[0], ir.Constant(I1, 0))
        return builder.sub(ir.Constant(I64, 64), zeros)

    return types.int64(types.int64), build
