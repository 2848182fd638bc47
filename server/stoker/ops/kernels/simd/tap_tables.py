"""Tap tables of four outputs at once: the twin of `stoker.ops.kernels.tap_tables`.

The float64 operations of each output are those of `taps.fill_taps`, in its order. The
last outputs of a row whose length is not a multiple of four are written more than once.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir

from stoker.ops.kernels.simd.blocks import I32, at, store, transposed
from stoker.ops.kernels.simd.vectors import I64, constant, repeated, splat
from stoker.ops.kernels.taps import ONE

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic

FOUR = 4
F64 = ir.DoubleType()
DOUBLES = ir.VectorType(F64, FOUR)
INTS = ir.VectorType(I32, FOUR)


def _fixed(number: float) -> Any:
    return constant(F64, FOUR, number)


class _Outputs:
    """Four outputs of a table, while their code is written."""

    def __init__(self, builder: Any, numbers: Any, index: list[Any], cubic: bool) -> None:
        """Find the windows; `numbers` are scale, support, shrink, start and the source's size."""
        self.builder, self.cubic = builder, cubic
        scale, support, self.shrink, start, size_in = numbers
        lanes: Any = ir.Constant(INTS, ir.Undefined)
        for n, one in enumerate(index):
            some = builder.trunc(one, I32)
            lanes = builder.insert_element(lanes, some, ir.Constant(I32, n))
        place = builder.fadd(builder.sitofp(lanes, DOUBLES), _fixed(0.5))
        self.center = builder.fadd(start, builder.fmul(place, scale))
        low = builder.fadd(builder.fsub(self.center, support), _fixed(0.5))
        end = builder.fadd(builder.fadd(self.center, support), _fixed(0.5))
        self.first = self._chosen(">", builder.fptosi(low, INTS), constant(I32, FOUR, 0))
        self.end = self._chosen("<", builder.fptosi(end, INTS), size_in)

    def _chosen(self, sign: str, a: Any, b: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed(sign, a, b), a, b)

    def value(self, tap: Any) -> Any:
        """Return the filter's values at a tap, 0 beyond the window."""
        builder = self.builder
        place = builder.add(self.first, splat(builder, builder.trunc(tap, I32), FOUR))
        x = builder.fsub(builder.sitofp(place, DOUBLES), self.center)
        x = builder.fmul(builder.fadd(x, _fixed(0.5)), self.shrink)
        negative = builder.fcmp_ordered("<", x, _fixed(0.0))
        x = builder.select(negative, builder.fsub(_fixed(0.0), x), x)
        near = builder.fcmp_ordered("<", x, _fixed(1.0))
        far = _fixed(0.0)
        if self.cubic:
            within = builder.fcmp_ordered("<", x, _fixed(2.0))
            far = builder.select(within, self._far(x), far)
        inner = self._near(x) if self.cubic else builder.fsub(_fixed(1.0), x)
        inside = builder.icmp_signed("<", place, self.end)
        return builder.select(inside, builder.select(near, inner, far), _fixed(0.0))

    def _near(self, x: Any) -> Any:
        """Return (1.5 x - 2.5) x x + 1."""
        builder = self.builder
        value = builder.fsub(builder.fmul(_fixed(1.5), x), _fixed(2.5))
        return builder.fadd(builder.fmul(builder.fmul(value, x), x), _fixed(1.0))

    def _far(self, x: Any) -> Any:
        """Return (((x - 5) x + 8) x - 4) / -2."""
        builder = self.builder
        value = builder.fmul(builder.fsub(x, _fixed(5.0)), x)
        value = builder.fmul(builder.fadd(value, _fixed(8.0)), x)
        return builder.fmul(builder.fsub(value, _fixed(4.0)), _fixed(-0.5))

    def weight(self, tap: Any, inverse: Any) -> Any:
        """Return the rounded weights of a tap."""
        builder = self.builder
        weight = builder.fmul(builder.fmul(self.value(tap), inverse), _fixed(ONE))
        negative = builder.fcmp_ordered("<", weight, _fixed(0.0))
        half = builder.select(negative, _fixed(-0.5), _fixed(0.5))
        return builder.fptosi(builder.fadd(weight, half), INTS)


def _split(builder: Any, weights: list[Any]) -> list[Any]:
    """Return the words of four quads, by word, as `ops.tap_tables.split_weights` has them."""
    carry, sixteen = constant(I32, FOUR, 0x8000), constant(I32, FOUR, 16)
    upper = [builder.ashr(builder.add(weight, carry), sixteen) for weight in weights]
    words = []
    for a, b, c, d in (weights, upper):
        for low, high in ((a, b), (c, d)):
            part = builder.and_(low, constant(I32, FOUR, 0xFFFF))
            words.append(builder.or_(part, builder.shl(high, sixteen)))
    return words


@intrinsic  # type: ignore[untyped-decorator]
def fill_split(
    _context: Any, axis: Any, numbers: Any, count: Any, first: Any, words: Any, row: Any
) -> Any:
    """Write the table of one axis, its weights split."""
    if first.dtype != types.int32 or words.dtype != types.int32:
        return None

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        axis, numbers, count, first, words, _ = arguments
        size_in, size_out, filter_id = (builder.extract_value(axis, n) for n in range(3))
        given = [splat(builder, builder.extract_value(numbers, n), FOUR) for n in range(4)]
        given.append(splat(builder, builder.trunc(size_in, I32), FOUR))
        firsts = at(builder, context, signature.args[3], first, ir.Constant(I64, 0))
        table = at(builder, context, signature.args[4], words, ir.Constant(I64, 0))
        four, last = ir.Constant(I64, FOUR), builder.sub(size_out, ir.Constant(I64, 1))
        groups = builder.udiv(builder.add(size_out, ir.Constant(I64, FOUR - 1)), four)

        def write(cubic: bool) -> None:
            with repeated(builder, groups) as group:
                index = []
                for n in range(FOUR):
                    own = builder.add(builder.mul(group, four), ir.Constant(I64, n))
                    index.append(builder.select(builder.icmp_signed("<", own, last), own, last))
                outputs = _Outputs(builder, given, index, cubic)
                for n, place in enumerate(index):
                    begun = builder.extract_element(outputs.first, ir.Constant(I32, n))
                    builder.store(begun, builder.gep(firsts, [place]))
                inverse = builder.fdiv(_fixed(1.0), _total(builder, outputs, count))
                with repeated(builder, builder.udiv(count, four)) as quad:
                    tap = builder.mul(quad, four)
                    taps = [builder.add(tap, ir.Constant(I64, n)) for n in range(FOUR)]
                    weights = [outputs.weight(one, inverse) for one in taps]
                    quads = transposed(builder, _split(builder, weights))
                    for place, some in zip(index, quads, strict=True):
                        to = builder.add(builder.mul(place, count), tap)
                        store(builder, some, builder.gep(table, [to]))

        is_cubic = builder.icmp_signed("!=", filter_id, ir.Constant(I64, 0))
        with builder.if_else(is_cubic) as (then, otherwise):
            with then:
                write(True)
            with otherwise:
                write(False)
        return context.get_dummy_value()

    int64 = types.int64
    numbers_of = types.UniTuple(int64, 3), types.UniTuple(types.float64, 5)
    return types.none(*numbers_of, int64, first, words, row), build


def _total(builder: Any, outputs: _Outputs, count: Any) -> Any:
    """Return the sums of the filter's values, added in the order of the taps."""
    before = builder.basic_block
    with repeated(builder, count) as tap:
        total = builder.phi(DOUBLES)
        total.add_incoming(_fixed(0.0), before)
        grown = builder.fadd(total, outputs.value(tap))
        total.add_incoming(grown, builder.basic_block)
    return grown
