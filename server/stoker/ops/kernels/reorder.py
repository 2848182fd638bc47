"""Reorder the pixels of an image: flips, the transposition and quarter turns, by one kernel.

Output pixel (y, x) is source pixel first + y * step_y + x * step_x of the flattened image. If a
step along the row is one pixel, whole rows are copied; if it is one pixel backwards, runs are
mirrored. Otherwise rows become columns: the output is walked in tiles, so that source and output
are read and written by cache lines, and a tile in blocks that are turned in registers. Pixels are
moved as bytes of any meaning.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.blocks import turn1, turn2, turn3, turn4
from stoker.ops.kernels.runs import (
    SIXTEEN,
    THIRTY_TWO,
    copy_run,
    exchange16,
    exchange32,
    flat,
    reverse16,
    reverse32,
)

TILE: Final = 128
K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)


@kernel
def reorder(src: Any, dst: Any, size: Any, walk: Any) -> None:
    """Write every pixel of an image to its new place.

    Args:
        src: `(H, W, C)` or `(H, W)` of any dtype, contiguous.
        dst: as `src`, of the output's size.
        size: (height, width) of the output, in pixels.
        walk: (first, step_y, step_x): source pixel of output (0, 0), and the increments for the
            next row and the next column; one of the two steps is 1 or -1.
    """
    if walk[2] == 1:
        move_rows(src, dst, walk[0], walk[1])
    elif walk[2] == -1:
        mirror_image(src, dst, walk[0], walk[1])
    else:
        turn_image(src, dst, size, walk)


@kernel
def bytes_of(src: Any, dst: Any) -> Any:
    """Return two images as flat bytes, and the number of bytes of a pixel."""
    pixel = src.itemsize * src.size // (src.shape[0] * src.shape[1])
    return flat(src).view(np.uint8), flat(dst).view(np.uint8), pixel


@kernel
def move_rows(src: Any, dst: Any, first: int, step: int) -> None:
    """Write rows in another order; `first` and `step` as `reorder`'s first and step_y."""
    image, result, pixel = bytes_of(src, dst)
    height, line = dst.shape[0], dst.shape[1] * pixel
    copy_rows(image, (first * pixel, step * pixel), result, (np.int64(0), line), height, line)


@kernel
def mirror_image(src: Any, dst: Any, first: int, step: int) -> None:
    """Write mirrored rows; `first` and `step` as `reorder`'s first and step_y, step_x being -1."""
    height, width = dst.shape[0], dst.shape[1]
    channels = src.size // (height * width)
    image, result = flat(src), flat(dst)
    source, target = ((first - (width - 1)) * channels, step * channels), width * channels
    rows, count = height, width
    if step == -width:  # half a turn: one long row, mirrored
        source, rows, count = (np.int64(0), np.int64(0)), np.int64(1), height * width
    if channels == 1:
        mirror1(image, source, result, (np.int64(0), target), (rows, count))
    elif channels == 3:
        mirror3(image, source, result, (np.int64(0), target), (rows, count))
    else:
        for y in range(rows):
            last = source[0] + y * source[1] + (count - 1) * channels
            walk_pixels(image, last, -channels, result, y * target, count, channels)


@kernel
def is_one(src: Any, dst: Any) -> bool:
    """Return whether two images are the same memory."""
    return bool(src.ctypes.data == dst.ctypes.data)


@kernel
def mirror_in_place(image: Any) -> None:
    """Mirror the rows of an image where they are: blocks from both ends change places."""
    height, width = image.shape[0], image.shape[1]
    channels = image.size // (height * width)
    values, line = flat(image), width * channels
    side = 0
    if channels == 1:
        side = THIRTY_TWO
    elif channels == 3:
        side = SIXTEEN
    blocks = width // (2 * side) if side > 0 else 0
    for y in range(height):
        start = y * line
        for block in range(blocks):
            a = start + block * side * channels
            b = start + line - (block + 1) * side * channels
            if channels == 1:
                exchange32(values, a, b)
            else:
                exchange16(values, a, b)
        for x in range(blocks * side, width // 2):
            a, b = start + x * channels, start + (width - 1 - x) * channels
            for c in range(channels):
                values[a + c], values[b + c] = values[b + c], values[a + c]


@kernel
def copy_rows(src: Any, source: Any, dst: Any, target: Any, rows: int, count: int) -> None:
    """Copy rows of `count` values.

    Args:
        src: flat, of any dtype.
        source: (index of the first value, values from row to row).
        dst: flat, of the same dtype.
        target: as `source`.
        rows: number of rows.
        count: values of a row.
    """
    if source[1] == count and target[1] == count:  # side by side: one long row
        copy_run(src, source[0], dst, target[0], rows * count)
        return
    for y in range(rows):
        copy_run(src, source[0] + y * source[1], dst, target[0] + y * target[1], count)


@kernel
def mirror1(src: Any, source: Any, dst: Any, target: Any, size: Any) -> None:
    """Mirror rows of single values.

    Args:
        src: flat, of any dtype.
        source: (index of the first row's first value, values from row to row).
        dst: flat, of the same dtype.
        target: as `source`.
        size: (rows, pixels of a row).
    """
    rows, count = size
    blocks = count // THIRTY_TWO
    for y in range(rows):
        start, first = source[0] + y * source[1], target[0] + y * target[1]
        last = start + count - THIRTY_TWO
        for block in range(blocks):
            reverse32(src, last - THIRTY_TWO * block, dst, first + THIRTY_TWO * block)
        if blocks > 0:  # the rest at the end: a block that overlaps previous ones
            reverse32(src, start, dst, first + count - THIRTY_TWO)
        else:
            b, a = np.uint64(start + count - 1), np.uint64(first)
            for x in range(np.uint64(count)):
                dst[a + x] = src[b - x]


@kernel
def mirror3(src: Any, source: Any, dst: Any, target: Any, size: Any) -> None:
    """Mirror rows of pixels of three values; see `mirror1`."""
    rows, count = size
    blocks = count // SIXTEEN
    for y in range(rows):
        first, last = target[0] + y * target[1], source[0] + y * source[1] + 3 * count
        for block in range(1, blocks + 1):
            reverse16(src, last - 3 * SIXTEEN * block, dst, first + 3 * SIXTEEN * (block - 1))
        a, b = np.uint64(first), np.uint64(last - 3)
        for x in range(np.uint64(SIXTEEN * blocks), np.uint64(count)):
            k = K3 * x
            dst[a + k] = src[b - k]
            dst[a + k + K1] = src[b - k + K1]
            dst[a + k + K2] = src[b - k + K2]


@kernel
def walk_pixels(src: Any, at: int, step: int, dst: Any, to: int, count: int, pixel: int) -> None:
    """Write a run of pixels of `pixel` values that are `step` values apart in the source."""
    for x in range(count):
        a, b = np.uint64(at + x * step), np.uint64(to + x * pixel)
        for c in range(np.uint64(pixel)):
            dst[b + c] = src[a + c]


@kernel
def turn_image(source: Any, target: Any, size: Any, walk: Any) -> None:
    """Write an image whose rows are columns of the source; see `reorder`."""
    src, dst, pixel = bytes_of(source, target)
    height, width = size
    first, step_y, step_x = walk
    side = block_side(pixel)
    tall, wide = height // side * side, width // side * side
    for top in range(0, tall, TILE):
        for left in range(0, wide, TILE):
            tile = (top, min(top + TILE, tall), left, min(left + TILE, wide))
            turn_tile(src, dst, tile, width, pixel, walk)
    if tall > 0 and wide > 0:  # the rest at the ends: blocks that overlap previous ones
        bottom, right = height - side, width - side
        if wide < width:
            turn_tile(src, dst, (0, tall, right, width), width, pixel, walk)
        if tall < height:
            turn_tile(src, dst, (bottom, height, 0, wide), width, pixel, walk)
        if wide < width and tall < height:
            turn_tile(src, dst, (bottom, height, right, width), width, pixel, walk)
        return
    for y in range(height):
        at = (first + y * step_y) * pixel
        walk_pixels(src, at, step_x * pixel, dst, y * width * pixel, width, pixel)


@kernel
def block_side(pixel: int) -> int:
    """Return the number of pixels of a block's side."""
    if pixel == 1:
        return 16
    return 8 if pixel == 2 else 4


@kernel
def turn_tile(src: Any, dst: Any, tile: Any, width: int, pixel: int, walk: Any) -> None:
    """Write a tile of whole blocks.

    Args:
        src: flat bytes.
        dst: flat bytes.
        tile: (first row, end, first column, end) in the output.
        width: pixels of an output row.
        pixel: bytes of a pixel.
        walk: see `reorder`; `step_y` is 1 or -1.
    """
    top, bottom, left, right = tile
    first, step_y, step_x = walk
    side, step, line = block_side(pixel), step_x * pixel, step_y * width * pixel
    back = 0 if step_y > 0 else side - 1
    for y in range(top, bottom, side):
        for x in range(left, right, side):
            at = (first + (y + back) * step_y + x * step_x) * pixel
            to = ((y + back) * width + x) * pixel
            if pixel == 3:
                turn3(src, at, step, dst, to, line)
            elif pixel == 1:
                turn1(src, at, step, dst, to, line)
            elif pixel == 2:
                turn2(src, at, step, dst, to, line)
            elif pixel == 4:
                turn4(src, at, step, dst, to, line)
            else:
                for row in range(side):
                    walk_pixels(src, at + row * pixel, step, dst, to + row * line, side, pixel)


@kernel
def turned(height: int, width: int, quarters: int) -> Any:
    """Return output size and walk of an image turned counter-clockwise, as `numpy.rot90`."""
    if quarters == 1:
        return (width, height), (width - 1, -1, width)
    if quarters == 2:
        return (height, width), (height * width - 1, -width, -1)
    if quarters == 3:
        return (width, height), ((height - 1) * width, 1, -width)
    return (height, width), (0, width, 1)
