"""Turn images of floats so that rows become columns: pixels are copied whole, tile by tile.

`kernels.reorder` does the same with bytes, in blocks that fit registers; a pixel of several
floats is as long as such a block's row, so turning it there gains nothing. Floats are moved
as words: no processor changes their bits.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.pixels import pick3
from stoker.ops.kernels.reorder import reorder

TILE: Final = 16
"""Pixels of a side of a tile: its rows and its columns fit the nearest cache."""
K1: Final = np.uint64(1)


@kernel
def reorder_floats(src: Any, dst: Any, size: Any, walk: Any) -> None:
    """Write every pixel of an image of float32 to its new place; as `reorder`."""
    if abs(walk[2]) == 1 or src.shape[2] == 1:
        reorder(src, dst, size, walk)
        return
    height, width = size
    words, result = src.reshape(src.size).view(np.uint32), dst.reshape(dst.size).view(np.uint32)
    for top in range(0, height, TILE):
        for left in range(0, width, TILE):
            tile = (top, min(top + TILE, height), left, min(left + TILE, width))
            turn_pixels(words, result, tile, width, src.shape[2], walk)


@kernel
def turn_pixels(src: Any, dst: Any, tile: Any, width: int, channels: int, walk: Any) -> None:
    """Write a tile.

    Args:
        src: flat words.
        dst: flat words.
        tile: (first row, end, first column, end) in the output.
        width: pixels of an output row.
        channels: words of a pixel.
        walk: see `stoker.ops.kernels.reorder.reorder`.
    """
    top, bottom, left, right = tile
    first, step_y, step_x = walk
    step, count = np.uint64(step_x * channels), np.uint64(channels)
    for y in range(top, bottom):
        a = np.uint64((first + y * step_y + left * step_x) * channels)
        b = np.uint64((y * width + left) * channels)
        for x in range(np.uint64(right - left)):
            # For three words `pick3` writes four, which the last pixel must not.
            if channels == 3 and x + K1 < np.uint64(right - left):
                pick3(src, np.int64(a), dst, np.int64(b))
            else:
                for c in range(count):
                    dst[b + c] = src[a + c]
            a += step
            b += count
