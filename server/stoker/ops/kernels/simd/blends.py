"""Levels blended with a constant, 64 at a time: the twin of `color.blend_levels`.

The result for a level depends only on the level, so if tables are kept in registers, all 256 levels
are blended first, and the image is looked up in them; otherwise every level is blended in lanes of
int32. Nothing is checked here: the caller stays inside of the image.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir
from numba.core import cgutils

from stoker.ops.kernels.simd.blocks import I8, I32, load, store
from stoker.ops.kernels.simd.blocks import at as address
from stoker.ops.kernels.simd.lookup import IN_REGISTERS, INDEX, LANES, picked
from stoker.ops.kernels.simd.vectors import constant, splat

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic

BITS, HIGH = 16, 255


def _blended(builder: Any, levels: Any, factor: Any, rest: Any) -> Any:
    """Blend lanes of int32: (factor*x + rest + 2**15) >> 16, clipped to a level."""
    lanes = levels.type.count
    low, high = constant(I32, lanes, 0), constant(I32, lanes, HIGH)
    total = builder.add(builder.mul(levels, splat(builder, factor, lanes)), rest)
    half = builder.add(total, constant(I32, lanes, 1 << (BITS - 1)))
    done = builder.ashr(half, constant(I32, lanes, BITS))
    done = builder.select(builder.icmp_signed("<", done, low), low, done)
    done = builder.select(builder.icmp_signed(">", done, high), high, done)
    return builder.trunc(done, ir.VectorType(I8, lanes))


def _by_table(builder: Any, factor: Any, rest: Any) -> Any:
    """Return the function that blends 64 levels: a look-up."""
    wide = ir.VectorType(I32, LANES)
    quarters = [ir.Constant(wide, [LANES * q + n for n in range(LANES)]) for q in range(4)]
    rests = splat(builder, rest, LANES)
    table = [_blended(builder, quarter, factor, rests) for quarter in quarters]
    return lambda levels: picked(builder, levels, table)


def _by_sums(builder: Any, factor: Any, rest: Any) -> Any:
    """Return the function that blends 64 levels: arithmetic."""
    rests, wide = splat(builder, rest, LANES), ir.VectorType(I32, LANES)
    return lambda levels: _blended(builder, builder.zext(levels, wide), factor, rests)


def _blender(way: Any) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def blend(_context: Any, image: Any, blocks: Any, factor: Any, rest: Any) -> Any:
        if image.dtype != types.uint8 or image.ndim != 1:
            return None

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            image, blocks, factor, rest = arguments
            start = address(builder, context, signature.args[0], image, ir.Constant(INDEX, 0))
            blend_block = way(builder, factor, rest)
            with cgutils.for_range(builder, blocks) as loop:
                place = builder.gep(start, [builder.mul(loop.index, ir.Constant(INDEX, LANES))])
                store(builder, blend_block(load(builder, place, LANES)), place)
            return context.get_dummy_value()

        return types.none(image, types.int64, types.int32, types.int32), build

    return blend


blend_levels = _blender(_by_table if IN_REGISTERS else _by_sums)
blend_by_table, blend_by_sums = _blender(_by_table), _blender(_by_sums)
"""Each way by itself, for tests. Compiling `blend_by_table` without VBMI ends the process."""
