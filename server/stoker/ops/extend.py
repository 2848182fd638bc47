"""Extend an image over its edges: by its outermost pixels, or by its mirror image.

Output pixel (y, x) is source pixel (place(y + top), place(x + left)). Edge: the nearest pixel that
there is. Reflect: mirrored at the outermost pixel, which is not repeated, again and again where the
extension is longer than the image; an image of one pixel repeats it. As `numpy.pad`.
"""

from typing import Any

import numpy as np

from stoker.ops.reorder import copy_run
from stoker.rng.jit import kernel


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
        dst: `(h, w, C)` of the same dtype, contiguous.
        top: first row of the window, in source pixels; 0 or less.
        left: first column of the window; 0 or less.
        reflect: 1 to mirror, 0 to repeat the edge.
    """
    height, width, channels = src.shape
    size_y, size_x, _ = dst.shape
    image, result = src.reshape(src.size), dst.reshape(dst.size)
    for y in range(size_y):
        row = place(y + top, height, reflect) * width
        to = y * size_x
        extend_run(image, (row, width, channels), left, result, to, -left, reflect)
        copy_run(image, row * channels, result, (to - left) * channels, width * channels)
        after = size_x + left - width
        to += size_x - after
        extend_run(image, (row, width, channels), width, result, to, after, reflect)


@kernel
def extend_run(
    image: Any, line: Any, at: int, result: Any, to: int, count: int, reflect: int
) -> None:
    """Write `count` pixels of an extended row, from position `at` on, to pixel `to`.

    `line` is (first pixel, pixels, channels) of the row.
    """
    row, width, channels = line
    for x in range(count):
        a = np.uint64((row + place(at + x, width, reflect)) * channels)
        b = np.uint64((to + x) * channels)
        for c in range(np.uint64(channels)):
            result[b + c] = image[a + c]


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
