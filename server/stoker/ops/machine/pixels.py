"""Pixels of three bytes moved and mixed in lanes of four: the twins of `stoker.ops.pixels`.

Nothing is checked here: the callers stay inside of both arrays.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir

from stoker.ops.machine.blocks import at, load, shuffle, store
from stoker.ops.pixels import ROUND, SHIFT, WEIGHT

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic

FOUR = ir.VectorType(ir.IntType(32), 4)


def _flat(*arrays: Any) -> bool:
    """Whether arrays are flat and of one type of integers."""
    one = len({array.dtype for array in arrays}) == 1
    return one and isinstance(arrays[0].dtype, types.Integer) and arrays[0].ndim == 1


def _splat(builder: Any, number: Any) -> Any:
    """Return four int32 lanes of an int64 that fits one."""
    word = builder.trunc(number, FOUR.element)
    one = builder.insert_element(
        ir.Constant(FOUR, ir.Undefined), word, ir.Constant(FOUR.element, 0)
    )
    return shuffle(builder, one, one, [0, 0, 0, 0])


@intrinsic  # type: ignore[untyped-decorator]
def copy4(_context: Any, src: Any, start: Any, dst: Any, to: Any) -> Any:
    """Copy four values."""
    if not _flat(src, dst):
        return None

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, start, target, to = arguments
        four = load(builder, at(builder, context, signature.args[0], source, start), 4)
        store(builder, four, at(builder, context, signature.args[2], target, to))
        return context.get_dummy_value()

    return types.none(src, types.int64, dst, types.int64), build


def _lanes(builder: Any, vector: Any, bits: int) -> Any:
    """Return a vector of unsigned integers with lanes of another width."""
    wanted, width = ir.VectorType(ir.IntType(bits), vector.type.count), vector.type.element.width
    if bits == width:
        return vector
    return (builder.zext if bits > width else builder.trunc)(vector, wanted)


def _pairs_times(builder: Any, pixels: Any, weights: Any) -> Any:
    """Blend two neighbouring pixels of three bytes: int32 lanes of p0 * w0 + p1 * w1.

    Written as processors have it that multiply pairs of int16 and add them in one instruction.
    """
    beside = shuffle(builder, pixels, pixels, [0, 3, 1, 4, 2, 5, 3, 6])
    wide = _lanes(builder, beside, 16)
    eight = ir.VectorType(ir.IntType(32), 8)
    products = builder.mul(builder.sext(wide, eight), builder.sext(weights, eight))
    even = shuffle(builder, products, products, [0, 2, 4, 6])
    odd = shuffle(builder, products, products, [1, 3, 5, 7])
    return builder.add(even, odd)


@intrinsic  # type: ignore[untyped-decorator]
def mix4(
    _context: Any, src: Any, above: Any, below: Any, fx: Any, fy: Any, dst: Any, to: Any
) -> Any:
    """Write four levels between two pixels of one row and two of another."""
    if not _flat(src, dst):
        return None
    int64 = types.int64

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, above, below, fx, fy, target, to = arguments
        rows = [
            load(builder, at(builder, context, signature.args[0], source, place), 8)
            for place in (above, below)
        ]
        unit = ir.Constant(ir.IntType(64), WEIGHT)
        pair = builder.or_(builder.shl(fx, ir.Constant(ir.IntType(64), 16)), builder.sub(unit, fx))
        weights = builder.bitcast(_splat(builder, pair), ir.VectorType(ir.IntType(16), 8))
        upper, lower = (_pairs_times(builder, row, weights) for row in rows)
        total = builder.add(
            builder.mul(upper, _splat(builder, builder.sub(unit, fy))),
            builder.mul(lower, _splat(builder, fy)),
        )
        total = builder.add(total, ir.Constant(FOUR, [ROUND] * 4))
        mixed = builder.lshr(total, ir.Constant(FOUR, [SHIFT] * 4))
        store(
            builder,
            _lanes(builder, mixed, rows[0].type.element.width),
            at(builder, context, signature.args[5], target, to),
        )
        return context.get_dummy_value()

    return types.none(src, int64, int64, int64, int64, dst, int64), build
