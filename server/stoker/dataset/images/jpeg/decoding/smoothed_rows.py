"""Rows of pixels from chroma of half the width, which is smoothed: in two passes, none of bytes.

The result is that of `sampling.widen` and `color.convert_blocks`, one after the other. The first
pass weighs the two nearest rows of chroma, as int16; the second one weighs neighbors, in registers,
and converts. Even and odd pixels stay apart until they are written.
"""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.decoding.color import BLOCK, colors_of
from stoker.dataset.images.jpeg.decoding.sizes import PAD
from stoker.jit import kernel

SUMS: Final = 16
"""Sums that `weigh_rows` makes at once."""
_MIDDLE: Final = -128 << 4
_FIRST_SUM: Final = 2
"""Bytes of the sum before that of a row's first sample."""


@kernel
def convert_smoothed(
    planes: Any, luma: Any, chroma: Any, span: Any, rounding: Any, out: Any, to: Any, rooms: Any
) -> None:
    """Convert a row of pixels, and write nothing else.

    Args:
        planes: flat uint8.
        luma: place of the first pixel's luma level.
        chroma: for blue and red difference, places of sample 0 in (the nearest row, the next one);
            both are the same if rows are not smoothed.
        span: (first pixel, pixels).
        rounding: as for `sampling.widen`.
        out: flat uint8, receives three bytes for each pixel.
        to: place of the first pixel.
        rooms: places of two rows of sums in `planes`, of pixels + 2 PAD bytes each, and of 96 bytes
            for what does not fill a block.
    """
    left, count = span
    first = left // 2
    sums = ((left + count - 1) // 2 - first + 2 + SUMS) // SUMS
    for i in range(2):
        near, far = chroma[i]
        weigh_rows(planes, near + first - 1, far + first - 1, rooms[i], sums)
    whole = count // BLOCK
    if whole == 0:
        _convert(planes, luma, rooms, left % 2, rounding, planes, rooms[2], 1)
        for i in range(np.uint64(3 * count)):
            out[np.uint64(to) + i] = planes[np.uint64(rooms[2]) + i]
        return
    _convert(planes, luma, rooms, left % 2, rounding, out, to, whole)
    if count % BLOCK:  # the last block overlaps the one before
        rest = count - BLOCK
        _convert(planes, luma + rest, rooms, left % 2 + rest, rounding, out, to + 3 * rest, 1)


@kernel
def _convert(
    planes: Any, luma: Any, rooms: Any, skipped: Any, rounding: Any, out: Any, to: Any, blocks: Any
) -> None:
    """Convert blocks from a pixel on, which is `skipped` behind that of the first sum but one."""
    at = _FIRST_SUM + skipped // 2 * 2
    even, odd = rounding[0] + _MIDDLE, rounding[1] + _MIDDLE
    weights = (2, 2, 0, odd, even) if skipped % 2 else (-2, 0, 2, even, odd)
    convert_pairs(planes, luma, rooms[0] + at, rooms[1] + at, weights, out, to, blocks)


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.smoothed_pixels:weigh_rows")
def weigh_rows(planes: Any, near: Any, far: Any, to: Any, blocks: Any) -> None:
    """Write int16 sums of two rows: three times the nearer, once the other; blocks of SUMS."""
    count = SUMS * blocks
    rows = [planes[at : at + count].astype(np.int16) for at in (near, far)]
    planes[to : to + 2 * count] = (3 * rows[0] + rows[1]).view(np.uint8)


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.smoothed_pixels:convert_pairs")
def convert_pairs(
    planes: Any, luma: Any, blue: Any, red: Any, weights: Any, out: Any, to: Any, blocks: Any
) -> None:
    """Convert blocks of 32 pixels, at least 1.

    Args:
        planes: flat uint8.
        luma: place of the first level.
        blue: place of an int16 sum in `planes`, from `weigh_rows`.
        red: the same.
        weights: the difference of chroma of a first, third, ... pixel is three times the sum at its
            place, the one `weights[0]` bytes behind it, and `weights[3]`, in units of 1/16; of the
            next pixel three times the sum `weights[1]` bytes behind, the one `weights[2]` bytes
            behind, and `weights[4]`.
        out: flat uint8, receives the pixels.
        to: place of the first one.
        blocks: how many.
    """
    differences = []
    for place in (blue, red):

        def sums(by: int, place: int = place) -> Any:
            begin = place + by
            return planes[begin : begin + BLOCK * blocks].copy().view(np.int16).astype(np.int32)

        first = (3 * sums(0) + sums(weights[0]) + weights[3]) >> 4
        second = (3 * sums(weights[1]) + sums(weights[2]) + weights[4]) >> 4
        differences.append(np.stack([first, second], axis=1).reshape(-1))
    levels = planes[luma : luma + BLOCK * blocks].astype(np.int32)
    pixels = colors_of(levels, *differences)
    out[to : to + pixels.size] = pixels


assert PAD >= 2 * SUMS
