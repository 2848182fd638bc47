"""Cut a window out of an image; pixels outside of the image are filled.

Output pixel (y, x) is source pixel (y + top, x + left), or the fill. The window may begin at
negative positions, be larger than the image, or miss it.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.reorder import copy_rows
from stoker.ops.kernels.runs import copy_run, flat

NARROW: Final = 256
"""Values of a row up to which filling the whole image is faster than a loop over its gaps."""
K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)


@kernel
def cut(src: Any, dst: Any, top: int, left: int, fill: Any) -> None:
    """Cut the window of `dst`'s size at (top, left).

    Args:
        src: `(H, W, C)` of any dtype, contiguous.
        dst: `(h, w, C)` of the same dtype, contiguous.
        top: first row of the window, in source pixels.
        left: first column of the window.
        fill: at least C values.
    """
    height, width, channels = src.shape
    size_y, size_x, _ = dst.shape
    image, result = flat(src), flat(dst)
    x0 = min(max(-left, 0), size_x)
    x1 = max(min(width - left, size_x), x0)
    y0 = min(max(-top, 0), size_y)
    y1 = max(min(height - top, size_y), y0)
    rows, line = y1 - y0, size_x * channels
    if rows == 0 or x0 == x1:
        fill_run(result, np.int64(0), size_y * size_x, channels, fill)
        return
    source = (((y0 + top) * width + x0 + left) * channels, width * channels)
    target = ((y0 * size_x + x0) * channels, line)
    narrow = line <= NARROW
    if narrow and rows * (x1 - x0) < size_y * size_x:
        fill_lines(result, size_y, size_x, channels, fill)
    copy_rows(image, source, result, target, rows, (x1 - x0) * channels)
    if narrow:
        return
    # The fill after a row and that before the next one are one run.
    before, between = y0 * size_x + x0, size_x - x1 + x0
    after = (y1 - 1) * size_x + x1
    fill_run(result, np.int64(0), before, channels, fill)
    if between > 0:
        gaps = ((y0 * size_x + x1) * channels, line)
        fill_rows(result, gaps, rows - 1, between, channels, fill)
    fill_run(result, after * channels, size_y * size_x - after, channels, fill)


@kernel
def fill_run(result: Any, at: Any, count: Any, channels: int, fill: Any) -> None:
    """Write `count` pixels of the fill into a flat image, starting at index `at`."""
    fill_rows(result, (at, np.int64(0)), np.int64(1), count, channels, fill)


@kernel
def fill_lines(result: Any, rows: Any, count: Any, channels: int, fill: Any) -> None:
    """Write the fill into a whole flat image of `rows` rows of `count` pixels."""
    if is_level(channels, fill):
        fill_run(result, np.int64(0), rows * count, channels, fill)
        return
    line = count * channels
    fill_run(result, np.int64(0), count, channels, fill)
    for y in range(1, rows):
        copy_run(result, 0, result, y * line, line)


@kernel
def fill_rows(result: Any, target: Any, rows: Any, count: Any, channels: int, fill: Any) -> None:
    """Write the fill into rows of a flat image.

    Args:
        result: flat, of any dtype.
        target: (index of the first value, values from row to row).
        rows: number of rows.
        count: pixels of a row.
        channels: values of a pixel.
        fill: at least as many values.
    """
    if is_level(channels, fill):
        fill_values(result, target, rows, channels * count, fill[0])
    elif channels == 3:
        fill_colors(result, target, rows, count, (fill[0], fill[1], fill[2]))
    else:
        step = np.uint64(channels)
        for y in range(rows):
            at = np.uint64(target[0] + y * target[1])
            for x in range(np.uint64(count)):
                for c in range(step):
                    result[at + x * step + c] = fill[c]


@kernel
def fill_box(image: Any, shape: Any, box: Any, fill: Any) -> None:
    """Write the fill into a box (top, left, height, width) of a flat image.

    Args:
        image: flat, of any dtype.
        shape: (height, width, channels).
        box: inside of the image, in pixels.
        fill: at least as many values as channels.
    """
    _, width, channels = shape
    top, left, rows, count = box
    start = (top * width + left) * channels
    fill_rows(image, (start, width * channels), rows, count, channels, fill)


@kernel
def is_level(channels: int, fill: Any) -> Any:
    """Whether a fill of one or three channels is the same value for all."""
    return channels == 1 or (channels == 3 and fill[0] == fill[1] and fill[1] == fill[2])


@kernel
def fill_values(result: Any, target: Any, rows: Any, count: Any, value: Any) -> None:
    """Write a value `count` times into rows of a flat image; `target` as in `fill_rows`."""
    for y in range(rows):
        at = np.uint64(target[0] + y * target[1])
        for x in range(np.uint64(count)):
            result[at + x] = value


@kernel
def fill_colors(result: Any, target: Any, rows: Any, count: Any, color: Any) -> None:
    """Write three values `count` times into rows of a flat image; `target` as in `fill_rows`."""
    for y in range(rows):
        at = np.uint64(target[0] + y * target[1])
        for x in range(np.uint64(count)):
            result[at + K3 * x] = color[0]
            result[at + K3 * x + K1] = color[1]
            result[at + K3 * x + K2] = color[2]


def plain_cut(src: np.ndarray, dst: np.ndarray, top: int, left: int, fill: np.ndarray) -> None:
    """Cut with NumPy; the reference of `cut`."""
    rows, columns = np.arange(dst.shape[0]) + top, np.arange(dst.shape[1]) + left
    inside = ((rows >= 0) & (rows < src.shape[0]))[:, None] & (columns >= 0)
    inside &= columns < src.shape[1]
    picked = src[rows.clip(0, src.shape[0] - 1)[:, None], columns.clip(0, src.shape[1] - 1)]
    fills = fill[: src.shape[2]] if src.ndim == 3 else fill[0]
    dst[...] = np.where(inside[..., None] if src.ndim == 3 else inside, picked, fills)
