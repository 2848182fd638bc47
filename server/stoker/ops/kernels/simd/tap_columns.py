"""Pixels blended from pixels of their rows: the twins of `tap_sums.blend_pixels1` to 4.

A lane of a vector holds four source pixels of one row, or of some rows if they have one channel
or two; a shuffle makes pairs of each value's levels. Four output pixels are blended one after the
other, for all rows; packing them leaves four pixels of a row in each lane. Nothing is checked here.
"""

from typing import Any

import numba
import numba.extending
from llvmlite import ir

from stoker.ops.kernels.simd.blocks import I8, at, load, shuffle, store
from stoker.ops.kernels.simd.tap_sums import I16, QUAD, REGISTER, Sums, bytes_of, either, weights_of
from stoker.ops.kernels.simd.vectors import I64, LANE, as_lanes, blocks, constant, repeated

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic

BLOCK = 64
"""Bytes of the lanes of all rows that are blended at once."""


def _spread(channels: int, first: int) -> list[int]:
    """Return the places of two taps' levels in a lane of four taps, a dword for each value.

    If a row's pixels are shorter than a lane, the lane has several rows; after three channels
    it has an unused value.
    """
    rows = QUAD // channels if channels < 3 else 1
    places = []
    for value in range(QUAD):
        row, c = divmod(value, channels) if rows > 1 else (0, min(value, channels - 1))
        places += [(row * QUAD + first + tap) * channels + c for tap in (0, 1)]
    return places


def _joined(builder: Any, parts: list[Any]) -> Any:
    """Return short vectors as one."""
    while len(parts) > 1:
        lanes = list(range(2 * parts[0].type.count))
        parts = [shuffle(builder, parts[n], parts[n + 1], lanes) for n in range(0, len(parts), 2)]
    return parts[0]


class _Layout:
    """The layout of pixels of some channels in vectors: lanes of four pixels of one row or more."""

    def __init__(self, channels: int, register: int) -> None:
        self.channels, self.size = channels, register or LANE
        self.lane_rows = QUAD // channels if channels < 3 else 1
        self.vector_rows = self.size // LANE * self.lane_rows
        self.rows = BLOCK // LANE * self.lane_rows
        self.spread = [
            [n + m for n in range(0, self.size, LANE) for m in _spread(channels, first)]
            for first in (0, 2)
        ]

    def quads(self, builder: Any, place: Any, stride: Any) -> list[Any]:
        """Load four source pixels of all rows, from the address of the first row's."""
        rows = [
            builder.gep(place, [builder.mul(stride, ir.Constant(I64, n))]) for n in range(self.rows)
        ]
        parts = [load(builder, row, LANE // self.lane_rows) for row in rows]
        whole = [
            _joined(builder, parts[n : n + self.vector_rows])
            for n in range(0, self.rows, self.vector_rows)
        ]
        return [[self._pairs(builder, v, places) for places in self.spread] for v in whole]

    def _pairs(self, builder: Any, vector: Any, places: list[int]) -> Any:
        """Pick levels and widen them to int16."""
        order = [n for place in places for n in (place, self.size)]
        picked = shuffle(builder, vector, constant(I8, self.size, 0), order)
        return as_lanes(builder, picked, I16)

    def keep(self, builder: Any, levels: list[Any], place: Any, line: Any, more: int) -> None:
        """Store four output pixels of all rows, and `more` unused bytes after them."""
        for n in range(self.rows):
            lane, part = divmod(n % self.vector_rows, self.lane_rows)
            begin = LANE * lane + self.channels * part
            order = [begin + QUAD * p + c for p in range(QUAD) for c in range(self.channels)]
            order += [begin] * more
            row = levels[n // self.vector_rows]
            down = builder.gep(place, [builder.mul(line, ir.Constant(I64, n))])
            store(builder, shuffle(builder, row, row, order), down)


class _ColumnGroup:
    """A group of rows to blend, while its code is written."""

    def __init__(self, builder: Any, layout: _Layout, register: int, given: Any) -> None:
        self.builder, self.layout, self.register = builder, layout, register
        self.image, self.stride, self.table, self.target, self.wide = given
        self.step = ir.Constant(I64, layout.channels)

    def blended(self, x: Any, one: bool) -> list[Any]:
        """Blend one output pixel of all rows, of one quad of taps or of more."""
        builder, step = self.builder, self.step
        firsts, words, count = self.table
        index = builder.sext(builder.load(builder.gep(firsts, [x])), I64)
        begun = builder.gep(self.image, [builder.mul(index, step)])
        own = builder.gep(words, [builder.mul(x, ir.Constant(I64, QUAD) if one else count)])
        sums = Sums(builder, BLOCK // self.layout.size, self.register)
        if one:
            weights = weights_of(builder, own, self.register)
            sums.add(weights, self.layout.quads(builder, begun, self.stride))
            return sums.done()
        with repeated(builder, builder.udiv(count, ir.Constant(I64, QUAD))) as quad:
            tap = builder.mul(quad, ir.Constant(I64, QUAD))
            place = builder.gep(begun, [builder.mul(tap, step)])
            weights = weights_of(builder, builder.gep(own, [tap]), self.register)
            sums.add(weights, self.layout.quads(builder, place, self.stride))
        return sums.done()

    def write(self, one: bool) -> None:
        """Write the loop over blocks of four output pixels."""
        builder, layout = self.builder, self.layout
        line = builder.mul(self.wide, self.step)
        with blocks(builder, QUAD, self.wide) as x:
            four = [builder.add(x, ir.Constant(I64, n)) for n in range(QUAD)]
            done = zip(*[self.blended(pixel, one) for pixel in four], strict=True)
            levels = [bytes_of(builder, list(vectors), self.register) for vectors in done]
            place = builder.gep(self.target, [builder.mul(x, self.step)])
            if layout.channels != 3:
                layout.keep(builder, levels, place, line, 0)
            else:
                self._keep_threes(levels, place, line, x)

    def _keep_threes(self, levels: list[Any], place: Any, line: Any, x: Any) -> None:
        """Store whole lanes, if the pixels after them are written later."""
        after = self.builder.add(x, ir.Constant(I64, QUAD + 2))
        room = self.builder.icmp_signed("<=", after, self.wide)
        with self.builder.if_else(room) as (then, otherwise):
            with then:
                self.layout.keep(self.builder, levels, place, line, QUAD)
            with otherwise:
                self.layout.keep(self.builder, levels, place, line, 0)


def group_blend(channels: int, register: int) -> Any:
    """Return the intrinsic that blends all pixels of a group of rows."""
    layout = _Layout(channels, register)

    @intrinsic  # type: ignore[untyped-decorator]
    def blend(_context: Any, src: Any, source: Any, table: Any, dst: Any, to: Any) -> Any:
        if (src.dtype, dst.dtype) != (types.uint8, types.uint8):
            return None

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            src, source, table, dst, to = arguments
            start, stride = (builder.extract_value(source, n) for n in range(2))
            first, words, count = (builder.extract_value(table, n) for n in range(3))
            kinds, none = signature.args[2].types, ir.Constant(I64, 0)
            firsts = context.make_array(kinds[0])(context, builder, first)
            pointers = (firsts.data, at(builder, context, kinds[1], words, none), count)
            image = at(builder, context, signature.args[0], src, start)
            target = at(builder, context, signature.args[3], dst, to)
            wide = builder.extract_value(firsts.shape, 0)
            group = _ColumnGroup(builder, layout, register, (image, stride, pointers, target, wide))
            either(builder, count, group.write)
            return context.get_dummy_value()

        return types.none(src, source, table, dst, types.int64), build

    return blend


blend_pixels1, blend_pixels2 = group_blend(1, REGISTER), group_blend(2, REGISTER)
blend_pixels3, blend_pixels4 = group_blend(3, REGISTER), group_blend(4, REGISTER)
lane_pixels3, whole_pixels3 = group_blend(3, LANE if REGISTER else 0), group_blend(3, 0)
