"""Pixels of three values moved and mixed in lanes of four: the twins of `kernels.pixels`.

Nothing is checked here: the callers stay inside of both arrays.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir

from stoker.ops.kernels.pixels import PART, ROUND, SHIFT, WEIGHT
from stoker.ops.kernels.simd.blocks import at, load, shuffle, store
from stoker.ops.kernels.simd.vectors import splat

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic

FOUR = ir.VectorType(ir.IntType(32), 4)


def _flat(*arrays: Any) -> bool:
    """Whether arrays are flat and have one type of integers, or float32."""
    one = len({array.dtype for array in arrays}) == 1
    known = isinstance(arrays[0].dtype, types.Integer) or arrays[0].dtype == types.float32
    return one and known and arrays[0].ndim == 1


def _splat32(builder: Any, number: Any) -> Any:
    """Return four int32 lanes of an int64 that fits one."""
    return splat(builder, builder.trunc(number, FOUR.element), FOUR.count)


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
    """Blend two neighboring pixels of three bytes: int32 lanes of p0 * w0 + p1 * w1.

    This form matches processors that multiply pairs of int16 and add them in one instruction.
    """
    beside = shuffle(builder, pixels, pixels, [0, 3, 1, 4, 2, 5, 3, 6])
    wide = _lanes(builder, beside, 16)
    eight = ir.VectorType(ir.IntType(32), 8)
    products = builder.mul(builder.sext(wide, eight), builder.sext(weights, eight))
    even = shuffle(builder, products, products, [0, 2, 4, 6])
    odd = shuffle(builder, products, products, [1, 3, 5, 7])
    return builder.add(even, odd)


def _products(builder: Any, fx: Any, fy: Any) -> list[Any]:
    """Return the weights of four pixels, left before right and upper before lower, as int64."""
    unit = ir.Constant(ir.IntType(64), WEIGHT)
    left, upper = builder.sub(unit, fx), builder.sub(unit, fy)
    return [builder.mul(x, y) for y in (upper, fy) for x in (left, fx)]


def _mean_of_floats(builder: Any, four: list[Any], weights: list[Any]) -> Any:
    """Return the weighted mean of four numbers, or of four vectors lane by lane, as float32."""
    double, lanes = ir.DoubleType(), four[0].type
    if isinstance(lanes, ir.VectorType):
        double = ir.VectorType(double, lanes.count)
    total = None
    for value, weight in zip(four, weights, strict=True):
        share = builder.fmul(
            builder.sitofp(weight, ir.DoubleType()), ir.Constant(ir.DoubleType(), PART)
        )
        if isinstance(lanes, ir.VectorType):
            share = splat(builder, share, lanes.count)
        part = builder.fmul(builder.fpext(value, double), share)
        total = part if total is None else builder.fadd(total, part)
    return builder.fptrunc(total, lanes)


def _mean_of_levels(builder: Any, four: list[Any], weights: list[Any]) -> Any:
    """Return the weighted mean of four vectors of unsigned levels, rounded, halves up."""
    deep = ir.VectorType(ir.IntType(64), four[0].type.count)
    total = ir.Constant(deep, [ROUND] * deep.count)
    for values, weight in zip(four, weights, strict=True):
        share = splat(builder, weight, deep.count)
        total = builder.add(total, builder.mul(builder.zext(values, deep), share))
    mean = builder.lshr(total, ir.Constant(deep, [SHIFT] * deep.count))
    return builder.trunc(mean, four[0].type)


@intrinsic  # type: ignore[untyped-decorator]
def mix4(
    _context: Any, src: Any, above: Any, below: Any, fx: Any, fy: Any, dst: Any, to: Any
) -> Any:
    """Write four values between two pixels of one row and two of another."""
    if not _flat(src, dst):
        return None
    int64 = types.int64
    whole = isinstance(src.dtype, types.Integer)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, above, below, fx, fy, target, to = arguments
        rows = [
            load(builder, at(builder, context, signature.args[0], source, place), 8)
            for place in (above, below)
        ]
        unit = ir.Constant(ir.IntType(64), WEIGHT)
        address = at(builder, context, signature.args[5], target, to)
        if not whole or src.dtype.bitwidth > 8:
            lanes = ([0, 1, 2, 3], [3, 4, 5, 6])
            four = [shuffle(builder, row, row, some) for row in rows for some in lanes]
            mean_of = _mean_of_levels if whole else _mean_of_floats
            mean = mean_of(builder, four, _products(builder, fx, fy))
            store(builder, mean, address)
            return context.get_dummy_value()
        pair = builder.or_(builder.shl(fx, ir.Constant(ir.IntType(64), 16)), builder.sub(unit, fx))
        weights = builder.bitcast(_splat32(builder, pair), ir.VectorType(ir.IntType(16), 8))
        upper, lower = (_pairs_times(builder, row, weights) for row in rows)
        total = builder.add(
            builder.mul(upper, _splat32(builder, builder.sub(unit, fy))),
            builder.mul(lower, _splat32(builder, fy)),
        )
        total = builder.add(total, ir.Constant(FOUR, [ROUND] * 4))
        mixed = builder.lshr(total, ir.Constant(FOUR, [SHIFT] * 4))
        store(builder, _lanes(builder, mixed, rows[0].type.element.width), address)
        return context.get_dummy_value()

    return types.none(src, int64, int64, int64, int64, dst, int64), build


@intrinsic  # type: ignore[untyped-decorator]
def mix1(_context: Any, src: Any, places: Any, weights: Any, dst: Any, to: Any) -> Any:
    """Write the weighted mean of four values."""
    if not _flat(src, dst):
        return None
    places_type, shares_type = types.UniTuple(types.uint64, 4), types.UniTuple(types.int64, 4)
    whole = isinstance(src.dtype, types.Integer)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, places, weights, target, to = arguments
        i64 = ir.IntType(64)
        shares = [builder.extract_value(weights, n) for n in range(4)]
        values = [
            builder.load(
                at(builder, context, signature.args[0], source, builder.extract_value(places, n))
            )
            for n in range(4)
        ]
        if whole:
            wide = builder.sext if src.dtype.signed else builder.zext
            total = ir.Constant(i64, ROUND)
            for value, share in zip(values, shares, strict=True):
                total = builder.add(total, builder.mul(wide(value, i64), share))
            mean = builder.trunc(builder.ashr(total, ir.Constant(i64, SHIFT)), values[0].type)
        else:
            mean = _mean_of_floats(builder, values, shares)
        builder.store(mean, at(builder, context, signature.args[3], target, to))
        return context.get_dummy_value()

    return types.none(src, places_type, shares_type, dst, types.uint64), build
