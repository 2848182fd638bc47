"""YCbCr to RGB, a row at a time.

The arithmetic is that of libjpeg's jdcolor.c: R = Y + 1.402 Cr, G = Y - 0.34414 Cb - 0.71414 Cr,
B = Y + 1.772 Cb with 16 fraction bits, each product rounded for R and B, their sum for G, and
clipped. With factors of 15 bits R and B are the same for all levels (tests compare them).
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel

BLOCK: Final = 32
"""Pixels that are converted at once."""
RED_OF_CR: Final = 22971
"""0.701 * 2**15, to multiply twice the difference."""
BLUE_OF_CB: Final = 29033
"""0.886 * 2**15."""
GREEN_OF_CB, GREEN_OF_CR = -22554, 18734
"""-0.34414 and 1 - 0.71414 in units of 2**-16."""


@kernel
def convert_row(
    planes: Any, y: Any, cb: Any, cr: Any, out: Any, to: Any, count: Any, spare: int
) -> None:
    """Convert a row of pixels, and write nothing else.

    Args:
        planes: flat uint8: levels at `y`, `cb` and `cr`, whole blocks of which are read.
        y: place of the first luma level.
        cb: place of the first blue-difference level.
        cr: place of the first red-difference level.
        out: flat uint8, receives three bytes for each pixel.
        to: place of the first pixel.
        count: pixels.
        spare: place of 96 bytes in `planes` for what does not fill a block.
    """
    whole = count // BLOCK
    if whole:
        convert_blocks(planes, y, cb, cr, out, to, whole)
        rest = count - BLOCK
        if count % BLOCK:  # the last block overlaps the one before
            convert_blocks(planes, y + rest, cb + rest, cr + rest, out, to + 3 * rest, 1)
        return
    convert_blocks(planes, y, cb, cr, planes, spare, 1)
    for i in range(np.uint64(3 * count)):
        out[np.uint64(to) + i] = planes[np.uint64(spare) + i]


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.color:convert_blocks")
def convert_blocks(planes: Any, y: Any, cb: Any, cr: Any, out: Any, to: Any, blocks: Any) -> None:
    """Convert blocks of 32 pixels, at least 1; arguments as for `convert_row`."""
    count = BLOCK * blocks
    luma, blue, red = (planes[at : at + count].astype(np.int32) for at in (y, cb, cr))
    out[to : to + 3 * count] = colors_of(luma, blue - 128, red - 128)


def colors_of(luma: np.ndarray, blue: np.ndarray, red: np.ndarray) -> np.ndarray:
    """Return flat uint8 pixels of int32 levels of luma and differences of chroma."""
    pixels = np.stack(
        [
            luma + ((2 * red * RED_OF_CR + 2**14) >> 15),
            luma - red + ((GREEN_OF_CB * blue + GREEN_OF_CR * red + 2**15) >> 16),
            luma + ((2 * blue * BLUE_OF_CB + 2**14) >> 15),
        ],
        axis=1,
    )
    clipped: np.ndarray = np.clip(pixels, 0, 255).astype(np.uint8).reshape(-1)
    return clipped
