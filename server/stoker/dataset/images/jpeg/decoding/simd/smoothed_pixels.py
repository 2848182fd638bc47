"""Chroma of half the width to pixels in registers: the twins of `decoding.smoothed_rows`."""

from typing import Any

import numba
import numba.extending

from stoker.dataset.images.jpeg.decoding.simd.building import (
    FAST,
    I16,
    PORTABLE,
    Vectors,
    bytes_at,
    constant,
    load,
    moved,
    number,
    repeated,
    splat,
    store,
)
from stoker.dataset.images.jpeg.decoding.simd.color import (
    LANES,
    WORDS,
    loaded_words,
    pixels_of,
    thirds,
)

types: Any = numba.types
intrinsic: Any = numba.extending.intrinsic

PAIRS = [place for n in range(LANES // 2) for place in (n, n + LANES // 2)]
"""Of 16 bytes, 8 of even pixels and 8 of odd ones: the order of pixels."""


@intrinsic  # type: ignore[untyped-decorator]
def weigh_rows(_context: Any, planes: Any, near: Any, far: Any, to: Any, blocks: Any) -> Any:
    """Weigh two rows, 16 samples at a time."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        planes, *places, blocks = arguments
        near, far, to = (bytes_at(builder, context, signature.args[0], planes, at) for at in places)
        with repeated(builder, blocks) as turn:
            at = builder.mul(turn, number(LANES))
            tripled = builder.mul(
                loaded_words(builder, moved(builder, near, at)), constant(I16, [3] * LANES)
            )
            total = builder.add(tripled, loaded_words(builder, moved(builder, far, at)))
            store(builder, total, moved(builder, to, builder.shl(at, number(1))))
        return context.get_dummy_value()

    int64 = types.int64
    return types.none(planes, int64, int64, int64, int64), build


def _converter(vectors: Vectors) -> Any:
    """Return the intrinsic that converts blocks of 32 pixels."""

    @intrinsic  # type: ignore[untyped-decorator]
    def convert(
        _context: Any, planes: Any, luma: Any, blue: Any, red: Any, weights: Any, out: Any, to: Any,
        blocks: Any,
    ) -> Any:  # fmt: skip
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            planes, luma, blue, red, weights, out, to, blocks = arguments
            luma, *chroma = (
                bytes_at(builder, context, signature.args[0], planes, at)
                for at in (luma, blue, red)
            )
            target = bytes_at(builder, context, signature.args[5], out, to)
            by = [number(0), *(builder.extract_value(weights, n) for n in range(3))]
            rounding = [
                splat(builder, builder.trunc(builder.extract_value(weights, n), I16), LANES)
                for n in (3, 4)
            ]
            three, four, eight = (constant(I16, [n] * LANES) for n in (3, 4, 8))
            with repeated(builder, blocks) as turn:
                at = builder.mul(turn, number(2 * LANES))
                sums = [
                    [load(builder, moved(builder, moved(builder, one, at), b), WORDS) for b in by]
                    for one in chroma
                ]
                both = load(builder, moved(builder, luma, at), WORDS)
                levels = [builder.and_(both, constant(I16, [255] * LANES))]
                levels.append(builder.lshr(both, eight))
                halves = []
                for half in range(2):
                    differences = []
                    for one in sums:
                        total = builder.mul(one[2 * half], three)
                        total = builder.add(builder.add(total, one[2 * half + 1]), rounding[half])
                        differences.append(builder.ashr(total, four))
                    halves.append(pixels_of(builder, vectors, levels[half], *differences))
                colors = [vectors.levels(builder, *two) for two in zip(*halves, strict=True)]
                into = moved(builder, target, builder.mul(turn, number(6 * LANES)))
                for n, part in enumerate(thirds(builder, colors, PAIRS)):
                    store(builder, part, moved(builder, into, 2 * LANES * n))
            return context.get_dummy_value()

        int64 = types.int64
        five = types.UniTuple(int64, 5)
        return types.none(planes, int64, int64, int64, five, out, int64, int64), build

    return convert


convert_pairs, portable_pairs = _converter(FAST), _converter(PORTABLE)
