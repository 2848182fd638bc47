"""Extend an image beyond its edges: by its outermost pixels, or by its mirror image.

Output pixel (y, x) is source pixel (place(y + top), place(x + left)). Edge: the nearest existing
pixel. Reflect: mirrored at the outermost pixel, which is not repeated, several times if the
extension is longer than the image; an image of one pixel repeats it. As in `numpy.pad`.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.reorder import copy_rows, mirror1, mirror3
from stoker.ops.kernels.runs import copy_run

K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)


@kernel
def place(at: int, size: int, reflect: int) -> int:
    """Return the source pixel of a position on an axis of `size` pixels."""
    if reflect == 0 or size == 1:
        return min(max(at, 0), size - 1)
    period = 2 * (size - 1)
    turned = at % period
    return min(turned, period - turned)


@kernel
def extend(src: Any, dst: Any, top: int, left: int, reflect: int) -> None:
    """Cut the window of `dst`'s size at (top, left) out of the extended image.

    Args:
        src: `(H, W, C)` of any dtype, contiguous.
        dst: `(h, w, C)` of the same dtype, contiguous; the window holds all of the image.
        top: first row of the window, in source pixels; 0 or less.
        left: first column of the window; 0 or less.
        reflect: 1 to mirror, 0 to repeat the edge.
    """
    height, width, channels = src.shape
    size_y, size_x, _ = dst.shape
    image, result = src.reshape(src.size), dst.reshape(dst.size)
    stride, line = width * channels, size_x * channels
    target = ((-top * size_x - left) * channels, line)
    copy_rows(image, (np.int64(0), stride), result, target, height, stride)
    first = -top * size_x
    extend_rows(image, src.shape, left, result, (first, size_x, -left), reflect)
    after = (first - left + width, size_x, size_x + left - width)
    extend_rows(image, src.shape, width, result, after, reflect)
    for y in range(size_y):
        if y < -top or y >= height - top:
            row = place(y + top, height, reflect) - top
            copy_run(result, row * line, result, y * line, line)


@kernel
def extend_rows(image: Any, shape: Any, at: int, result: Any, run: Any, reflect: int) -> None:
    """Write the pixels next to an image, for each of its rows.

    Args:
        image: flat source.
        shape: (height, width, channels) of the source.
        at: position of the first pixel on a row: below 0, or the width.
        result: flat output.
        run: (first output pixel, pixels from row to row, pixels of a row).
        reflect: 1 to mirror, 0 to repeat the edge.
    """
    height, width, channels = shape
    to, line, count = run
    if reflect == 1 and count < width and channels in (1, 3):
        start = np.int64(1) if at < 0 else width - 1 - count
        source = (start * channels, width * channels)
        target, size = (to * channels, line * channels), (height, count)
        if channels == 1:
            mirror1(image, source, result, target, size)
        else:
            mirror3(image, source, result, target, size)
    elif reflect == 0:
        edge: Any = np.int64(0) if at < 0 else width - 1
        repeat_edge(image, shape, edge, result, run)
    else:
        for y in range(height):
            for x in range(count):
                a = np.uint64((y * width + place(at + x, width, reflect)) * channels)
                b = np.uint64((to + y * line + x) * channels)
                for c in range(np.uint64(channels)):
                    result[b + c] = image[a + c]


@kernel
def repeat_edge(image: Any, shape: Any, edge: int, result: Any, run: Any) -> None:
    """Write the pixel at column `edge` of each row next to the image; see `extend_rows`."""
    height, width, channels = shape
    to, line, count = run
    if channels == 1:
        for y in range(height):
            value, b = image[edge + y * width], np.uint64(to + y * line)
            for x in range(np.uint64(count)):
                result[b + x] = value
        return
    if channels == 3:
        for y in range(height):
            a, b = np.uint64((edge + y * width) * 3), np.uint64((to + y * line) * 3)
            red, green, blue = image[a], image[a + K1], image[a + K2]
            for _ in range(np.uint64(count)):
                result[b] = red
                result[b + K1] = green
                result[b + K2] = blue
                b += K3
        return
    for x in range(count):
        source, target = (edge * channels, width * channels), (to + x) * channels
        copy_rows(image, source, result, (target, line * channels), height, channels)


def plain_extend(src: np.ndarray, dst: np.ndarray, top: int, left: int, reflect: int) -> None:
    """Extend with NumPy indices; the reference of `extend`."""
    rows = plain_place(np.arange(dst.shape[0]) + top, src.shape[0], reflect)
    columns = plain_place(np.arange(dst.shape[1]) + left, src.shape[1], reflect)
    dst[...] = src[rows[:, None], columns]


def plain_place(at: np.ndarray, size: int, reflect: int) -> np.ndarray:
    """Return the source pixels of positions; the reference of `place`."""
    if reflect == 0 or size == 1:
        nearest: np.ndarray = np.clip(at, 0, size - 1)
        return nearest
    cycle = np.concatenate([np.arange(size), np.arange(size - 2, 0, -1)])
    found: np.ndarray = cycle[at % len(cycle)]
    return found
