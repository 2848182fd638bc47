"""Upsampling and color in registers: the twins of `sampling.widen` and `color.convert_blocks`."""

from typing import Any

import numba
import numba.extending
from llvmlite import ir

from stoker.dataset.images.jpeg.decoding.color import (
    BLUE_OF_CB,
    GREEN_OF_CB,
    GREEN_OF_CR,
    RED_OF_CR,
)
from stoker.dataset.images.jpeg.decoding.simd.building import (
    FAST,
    I8,
    I16,
    I32,
    PORTABLE,
    Vectors,
    bytes_at,
    constant,
    interleaved,
    load,
    moved,
    number,
    repeated,
    shuffle,
    splat,
    store,
)

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic

LANES = 16
BYTES = ir.VectorType(I8, LANES)
WORDS = ir.VectorType(I16, LANES)


def loaded_words(builder: Any, address: Any) -> Any:
    """Load 16 bytes as int16."""
    return builder.zext(load(builder, address, BYTES), WORDS)


@intrinsic  # type: ignore[untyped-decorator]
def widen(
    _context: Any, planes: Any, near: Any, far: Any, to: Any, blocks: Any, rounding: Any
) -> Any:
    """Double the samples of a row, in blocks of 16."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        planes, near, far, to, blocks, rounding = arguments
        rows = [bytes_at(builder, context, signature.args[0], planes, at) for at in (near, far)]
        target = bytes_at(builder, context, signature.args[0], planes, to)
        bias = [
            splat(builder, builder.trunc(builder.extract_value(rounding, n), I16), LANES)
            for n in range(2)
        ]
        three = constant(I16, [3] * LANES)
        with repeated(builder, blocks) as turn:
            at = builder.mul(turn, number(LANES))
            before, here, after = (
                builder.add(
                    builder.mul(
                        loaded_words(builder, moved(builder, moved(builder, rows[0], at), by)),
                        three,
                    ),
                    loaded_words(builder, moved(builder, moved(builder, rows[1], at), by)),
                )
                for by in (-1, 0, 1)
            )
            tripled = builder.mul(here, three)
            four = constant(I16, [4] * LANES)
            levels = [
                builder.lshr(builder.add(builder.add(tripled, other), more), four)
                for other, more in ((before, bias[0]), (after, bias[1]))
            ]
            # Even levels are the low bytes of int16, odd ones the high bytes.
            odd = builder.shl(levels[1], constant(I16, [8] * LANES))
            both = builder.bitcast(builder.or_(levels[0], odd), ir.VectorType(I8, 2 * LANES))
            store(builder, both, moved(builder, target, builder.shl(at, number(1))))
        return context.get_dummy_value()

    int64 = types.int64
    two = types.UniTuple(int64, 2)
    return types.none(planes, int64, int64, int64, int64, two), build


def thirds(builder: Any, colors: list[Any], order: Any = range(LANES)) -> list[Any]:
    """Interleave three vectors of 32 bytes, each half of which has 16 pixels, to 96 bytes.

    `order` has the place of each pixel among the 16 bytes of its half.
    """
    parts = []
    for turn in range(3):
        lanes = []
        for half in (0, LANES):
            for place in range(16 * turn, 16 * turn + 16):
                pixel, color = divmod(place, 3)
                lanes.append(half + order[pixel] if color < 2 else 0)
                lanes[-1] += 2 * LANES if color == 1 else 0
        first = shuffle(builder, colors[0], colors[1], lanes)
        lanes = []
        for half in (0, LANES):
            for n, place in enumerate(range(16 * turn, 16 * turn + 16)):
                pixel, color = divmod(place, 3)
                lanes.append(2 * LANES + half + order[pixel] if color == 2 else half + n)
        parts.append(shuffle(builder, first, colors[2], lanes))
    low, high = list(range(LANES)), list(range(LANES, 2 * LANES))
    upper = [n + 2 * LANES for n in low], [n + 2 * LANES for n in high]
    return [
        shuffle(builder, parts[0], parts[1], low + upper[0]),
        shuffle(builder, parts[2], parts[0], low + upper[1]),
        shuffle(builder, parts[1], parts[2], high + upper[1]),
    ]


def _converter(vectors: Vectors) -> Any:
    """Return the intrinsic that converts blocks of 32 pixels."""

    @intrinsic  # type: ignore[untyped-decorator]
    def convert(
        _context: Any, planes: Any, y: Any, cb: Any, cr: Any, out: Any, to: Any, blocks: Any
    ) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            planes, *places, out, to, blocks = arguments
            sources = [bytes_at(builder, context, signature.args[0], planes, at) for at in places]
            target = bytes_at(builder, context, signature.args[4], out, to)
            with repeated(builder, blocks) as turn:
                at = builder.mul(turn, number(2 * LANES))
                halves = []
                for half in range(2):
                    by = builder.add(at, number(LANES * half))
                    levels = [
                        loaded_words(builder, moved(builder, source, by)) for source in sources
                    ]
                    middle = constant(I16, [128] * LANES)
                    differences = [builder.sub(level, middle) for level in levels[1:]]
                    halves.append(pixels_of(builder, vectors, levels[0], *differences))
                colors = []
                for color in range(3):
                    packed = vectors.levels(builder, halves[0][color], halves[1][color])
                    quads = builder.bitcast(packed, ir.VectorType(number(0).type, 4))
                    ordered = shuffle(builder, quads, quads, [0, 2, 1, 3])
                    colors.append(builder.bitcast(ordered, ir.VectorType(I8, 2 * LANES)))
                into = moved(builder, target, builder.mul(turn, number(6 * LANES)))
                for n, part in enumerate(thirds(builder, colors)):
                    store(builder, part, moved(builder, into, 2 * LANES * n))
            return context.get_dummy_value()

        int64 = types.int64
        return types.none(planes, int64, int64, int64, out, int64, int64), build

    return convert


def pixels_of(builder: Any, vectors: Vectors, luma: Any, blue: Any, red: Any) -> list[Any]:
    """Return red, green and blue of 16 pixels as int16, not clipped; 128 is taken off of chroma."""
    half, sixteen = constant(I32, [1 << 15] * 8), constant(I32, [16] * 8)
    sums = [
        builder.ashr(
            builder.add(
                vectors.pair_sums(builder, pair, constant(I16, [GREEN_OF_CB, GREEN_OF_CR] * 8)),
                half,
            ),
            sixteen,
        )
        for pair in interleaved(builder, blue, red)
    ]
    green = builder.sub(builder.add(luma, vectors.words(builder, *sums)), red)
    return [
        builder.add(luma, vectors.scaled(builder, builder.add(red, red), RED_OF_CR)),
        green,
        builder.add(luma, vectors.scaled(builder, builder.add(blue, blue), BLUE_OF_CB)),
    ]


convert_blocks, portable_blocks = _converter(FAST), _converter(PORTABLE)
