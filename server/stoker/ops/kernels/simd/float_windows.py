"""Weighted sums of float32 runs, in registers: the twins of `windows_floats.weigh64`.

A block of a run is summed over all pairs before it is written. Nothing is checked here: the callers
stay inside of both arrays.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir
from numba.core import cgutils

from stoker.ops.kernels.simd.blocks import at, load, store
from stoker.ops.kernels.simd.float_sums import numbers
from stoker.ops.kernels.simd.vectors import I64, blocks, splat

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic
room: Any = cgutils.alloca_once
for_range: Any = cgutils.for_range

SIXTEEN = 16
"""Floats of a vector: one or more registers, depending on the processor."""
NONE, ONE = ir.Constant(I64, 0), ir.Constant(I64, 1)


class _Pairs:
    """Runs and their weights, while the code that sums them is written."""

    def __init__(self, builder: Any, line: Any, places: Any, weights: Any) -> None:
        self.builder, self.line, self.places, self.weights = builder, line, places, weights

    def weight(self, pair: Any) -> Any:
        """Load a weight, for every lane."""
        builder = self.builder
        return splat(builder, builder.load(builder.gep(self.weights, [pair])), SIXTEEN)

    def run(self, number: Any, x: Any) -> Any:
        """Return the address of value x of a run."""
        place = self.builder.load(self.builder.gep(self.places, [number]))
        return self.builder.gep(self.line, [self.builder.add(place, x)])

    def values(self, start: Any, n: int) -> Any:
        """Load vector n from an address on."""
        away = ir.Constant(I64, SIXTEEN * n)
        return load(self.builder, self.builder.gep(start, [away]), SIXTEEN)


def _weigh(size: int) -> Any:
    """Return the intrinsic that takes blocks of `size` values; a run has at least one block."""

    @intrinsic  # type: ignore[untyped-decorator]
    def weigh(
        _context: Any, line: Any, places: Any, weights: Any, count: Any, dst: Any, to: Any, n: Any
    ) -> Any:
        if {line.dtype, weights.dtype, dst.dtype} != {types.float32}:
            return None

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            given = signature.args
            flat = [at(builder, context, given[i], arguments[i], NONE) for i in range(3)]
            pairs, count, end = _Pairs(builder, *flat), arguments[3], arguments[6]
            target = at(builder, context, given[4], arguments[4], arguments[5])
            vectors = range(size // SIXTEEN)
            totals = [room(builder, ir.VectorType(ir.FloatType(), SIXTEEN)) for _ in vectors]
            with blocks(builder, size, end) as x:
                middle, weight = pairs.run(NONE, x), pairs.weight(NONE)
                for v in vectors:
                    builder.store(builder.fmul(weight, pairs.values(middle, v)), totals[v])
                with for_range(builder, builder.add(count, ONE), ONE) as loop:
                    second = builder.add(loop.index, loop.index)
                    a, b = pairs.run(builder.sub(second, ONE), x), pairs.run(second, x)
                    weight = pairs.weight(loop.index)
                    for v in vectors:
                        both = builder.fadd(pairs.values(a, v), pairs.values(b, v))
                        more = builder.fmul(weight, both)
                        builder.store(builder.fadd(builder.load(totals[v]), more), totals[v])
                start = builder.gep(target, [x])
                for v in vectors:
                    place = builder.gep(start, [ir.Constant(I64, SIXTEEN * v)])
                    store(builder, numbers(builder, builder.load(totals[v])), place)
            return context.get_dummy_value()

        int64 = types.int64
        return types.none(line, places, weights, int64, dst, int64, int64), build

    return weigh


weigh64, weigh16 = _weigh(64), _weigh(16)
