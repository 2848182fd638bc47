"""Single machine operations that numba does not offer, as numba intrinsics.

Importing this module imports numba, so only `stoker.jit` and the twins do.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def float_bits(_context: Any, x: Any) -> Any:
    """The bits of a float64, as int64."""
    if not isinstance(x, types.Float) or x.bitwidth != 64:
        return None

    def build(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), build


@intrinsic  # type: ignore[untyped-decorator]
def bits_float(_context: Any, bits: Any) -> Any:
    """The float64 of 64 bits."""
    if not isinstance(bits, types.Integer) or bits.bitwidth != 64:
        return None

    def build(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(bits), build


@intrinsic  # type: ignore[untyped-decorator]
def multiply_wide(_context: Any, a: Any, b: Any) -> Any:
    """The 128-bit product of two uint64, as (upper half, lower half)."""
    if a != types.uint64 or b != types.uint64:
        return None
    pair = types.UniTuple(types.uint64, 2)

    def build(ctx: Any, builder: Any, sig: Any, args: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        upper = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        return ctx.make_tuple(builder, sig.return_type, (upper, builder.trunc(product, word)))

    return pair(types.uint64, types.uint64), build


@intrinsic  # type: ignore[untyped-decorator]
def square_root(_context: Any, x: Any) -> Any:
    """The correctly rounded square root of a float64; nan below 0."""
    if not isinstance(x, types.Float) or x.bitwidth != 64:
        return None

    def build(_ctx: Any, builder: Any, _sig: Any, args: Any) -> Any:
        root = builder.module.declare_intrinsic("llvm.sqrt", [ir.DoubleType()])
        return builder.call(root, args)

    return types.float64(types.float64), build
