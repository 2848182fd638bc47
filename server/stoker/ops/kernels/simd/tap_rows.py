"""Rows blended from rows: the twins of `blend_row` and `blend_short_row` of `kernels.tap_sums`.

Four rows are interleaved byte by byte and with zeros, so that pairs of one column's levels are
adjacent; packing restores the order of the columns. Nothing is checked here.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir

from stoker.ops.kernels.simd.blocks import I8, at, load, store
from stoker.ops.kernels.simd.tap_sums import I16, QUAD, REGISTER, Sums, bytes_of, either, weights_of
from stoker.ops.kernels.simd.vectors import (
    I64,
    LANE,
    as_lanes,
    blocks,
    constant,
    interleaved,
    repeated,
)

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic


def row_blend(size: int, register: int) -> Any:
    """Return the intrinsic that blends a row of at least `size` bytes."""

    @intrinsic  # type: ignore[untyped-decorator]
    def blend(
        _context: Any,
        src: Any,
        rows: Any,
        words: Any,
        k: Any,
        count: Any,
        dst: Any,
        to: Any,
        n: Any,
    ) -> Any:
        if (src.dtype, dst.dtype) != (types.uint8, types.uint8) or words.dtype != types.int32:
            return None

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            src, rows, words, k, count, dst, to, line = arguments
            given = signature.args
            image = at(builder, context, given[0], src, ir.Constant(I64, 0))
            places = at(builder, context, given[1], rows, ir.Constant(I64, 0))
            weights = at(builder, context, given[2], words, k)
            target = at(builder, context, given[5], dst, to)
            quads = builder.udiv(count, ir.Constant(I64, QUAD))

            def starts(tap: Any) -> list[Any]:
                """Return the addresses of four rows."""
                four = [builder.add(tap, ir.Constant(I64, n)) for n in range(QUAD)]
                return [builder.gep(image, [builder.load(builder.gep(places, [n]))]) for n in four]

            def write(one: bool) -> None:
                if one:
                    factors = weights_of(builder, weights, register)
                    rows = starts(ir.Constant(I64, 0))
                with blocks(builder, size, line) as x:
                    sums = Sums(builder, QUAD, register)
                    if one:
                        sums.add(factors, _rows_of(builder, rows, x, size))
                    else:
                        with repeated(builder, quads) as quad:
                            tap = builder.mul(quad, ir.Constant(I64, QUAD))
                            some = weights_of(builder, builder.gep(weights, [tap]), register)
                            sums.add(some, _rows_of(builder, starts(tap), x, size))
                    levels = bytes_of(builder, sums.done(), register)
                    store(builder, levels, builder.gep(target, [x]))

            either(builder, count, write)
            return context.get_dummy_value()

        int64 = types.int64
        return types.none(src, rows, words, int64, int64, dst, int64, int64), build

    return blend


def _rows_of(builder: Any, starts: list[Any], x: Any, size: int) -> list[Any]:
    """Load a block of four rows and interleave them to pairs."""
    four = [load(builder, builder.gep(start, [x]), size) for start in starts]
    nothing = constant(I8, size, 0)
    pairs = []
    for n in (0, 2):
        both = interleaved(builder, *four[n : n + 2])
        wide = [part for half in both for part in interleaved(builder, half, nothing)]
        pairs.append([as_lanes(builder, part, I16) for part in wide])
    return list(zip(*pairs, strict=True))


blend_row, blend_short_row = (
    row_blend(REGISTER or LANE, REGISTER),
    row_blend(LANE, REGISTER and LANE),
)
lane_row, whole_row = row_blend(LANE, LANE if REGISTER else 0), row_blend(LANE, 0)
