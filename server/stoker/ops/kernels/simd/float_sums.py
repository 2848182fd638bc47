"""Weighted sums of float32 in lanes of four: the twin of `float_sums.blend_fours`.

A lane holds a pixel of three or four values. Each weight is read once for all rows, and sums of two
and of four taps, those of enlarged images, are written without a loop. Nothing is checked here:
the caller stays inside of both arrays.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir
from numba.core import cgutils

from stoker.ops.kernels.float_sums import ROWS
from stoker.ops.kernels.simd.blocks import at, load, store
from stoker.ops.kernels.simd.vectors import I64, constant, splat

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic
room: Any = cgutils.alloca_once
for_range: Any = cgutils.for_range

FLOAT = ir.FloatType()
FOUR = 4


def numbers(builder: Any, values: Any) -> Any:
    """Return lanes with every NaN replaced by the same NaN."""
    unordered = builder.fcmp_unordered("uno", values, values)
    return builder.select(unordered, constant(FLOAT, values.type.count, float("nan")), values)


class _Run:
    """The code of a run of pixels, while it is written.

    Attributes:
        table: addresses of the first pixel's span and weight, and the weights of each pixel.
        rows: addresses of tap 0 in each row.
        places: addresses of the first value written in each row.
        step: values from pixel to pixel.
        count: pixels of the run.
    """

    def __init__(self, builder: Any, table: Any, rows: Any, places: Any, run: Any) -> None:
        self.builder, self.rows, self.places = builder, rows, places
        self.spans, self.weights, self.most = table
        self.step, self.count = run

    def span(self, index: Any, which: int) -> Any:
        """Load the first tap of a pixel (0), or its number of taps (1)."""
        builder = self.builder
        place = builder.add(builder.mul(index, ir.Constant(I64, 2)), ir.Constant(I64, which))
        return builder.sext(builder.load(builder.gep(self.spans, [place])), I64)

    def products(self, index: Any, low: Any, tap: Any) -> list[Any]:
        """Return a pixel's weighted values of a tap, for every row."""
        builder = self.builder
        place = builder.add(builder.mul(index, self.most), tap)
        factor = splat(builder, builder.load(builder.gep(self.weights, [place])), FOUR)
        away = builder.mul(builder.add(low, tap), self.step)
        values = [load(builder, builder.gep(row, [away]), FOUR) for row in self.rows]
        return [builder.fmul(value, factor) for value in values]

    def write(self, index: Any, sums: list[Any]) -> None:
        """Write a pixel's sums, with every NaN replaced by the same NaN."""
        builder = self.builder
        away = builder.mul(index, self.step)
        for total, place in zip(sums, self.places, strict=True):
            store(builder, numbers(builder, total), builder.gep(place, [away]))

    def of_taps(self, taps: int) -> None:
        """Write all pixels, with a fixed number of taps each."""
        with for_range(self.builder, self.count) as loop:
            low = self.span(loop.index, 0)
            sums = self.products(loop.index, low, ir.Constant(I64, 0))
            for tap in range(1, taps):
                more = self.products(loop.index, low, ir.Constant(I64, tap))
                sums = [self.builder.fadd(*both) for both in zip(sums, more, strict=True)]
            self.write(loop.index, sums)

    def of_any(self) -> None:
        """Write all pixels, with any number of taps."""
        builder = self.builder
        totals = [room(builder, ir.VectorType(FLOAT, FOUR)) for _ in self.rows]
        with for_range(builder, self.count) as loop:
            low, taps = self.span(loop.index, 0), self.span(loop.index, 1)
            first = self.products(loop.index, low, ir.Constant(I64, 0))
            for total, product in zip(totals, first, strict=True):
                builder.store(product, total)
            with for_range(builder, taps, ir.Constant(I64, 1)) as further:
                more = self.products(loop.index, low, further.index)
                for total, product in zip(totals, more, strict=True):
                    builder.store(builder.fadd(builder.load(total), product), total)
            self.write(loop.index, [builder.load(total) for total in totals])


def _build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    source, start, steps, table, run, taps, target, to = arguments
    given, kinds = signature.args, signature.args[3].types
    spans, weights, most = (builder.extract_value(table, n) for n in range(3))
    step, stride, line = (builder.extract_value(steps, n) for n in range(3))
    first, count = (builder.extract_value(run, n) for n in range(2))
    rows, places = [], []
    for _ in range(ROWS):
        rows.append(at(builder, context, given[0], source, start))
        places.append(at(builder, context, given[6], target, to))
        start, to = builder.add(start, stride), builder.add(to, line)
    spans = at(builder, context, kinds[0], spans, builder.mul(first, ir.Constant(I64, 2)))
    weights = at(builder, context, kinds[1], weights, builder.mul(first, most))
    code = _Run(builder, (spans, weights, most), rows, places, (step, count))
    two, four = (builder.icmp_signed("==", taps, ir.Constant(I64, n)) for n in (2, 4))
    with builder.if_else(two) as (of_two, others):
        with of_two:
            code.of_taps(2)
        with others, builder.if_else(four) as (of_four, rest):
            with of_four:
                code.of_taps(4)
            with rest:
                code.of_any()
    return context.get_dummy_value()


@intrinsic  # type: ignore[untyped-decorator]
def blend_fours(
    _context: Any,
    src: Any,
    start: Any,
    steps: Any,
    table: Any,
    run: Any,
    taps: Any,
    dst: Any,
    to: Any,
) -> Any:
    """Write four weighted sums for each pixel of a run, in each of some rows."""
    if {src.dtype, table.types[1].dtype, dst.dtype} != {types.float32}:
        return None
    int64 = types.int64
    two, three = types.UniTuple(int64, 2), types.UniTuple(int64, 3)
    return types.none(src, int64, three, table, two, int64, dst, int64), _build
