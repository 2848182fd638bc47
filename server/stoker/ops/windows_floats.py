"""Filters of images of floats: what `stoker.ops.windows` does for levels, in float32.

Weights are symmetric float32: `weights[i]` counts for both pixels i away. A sum begins with the
middle weight times its value; then, for i = 1, 2, ..., the sum of the two values i away times their
weight is added. Every operation is rounded once. Columns first, then rows; beyond an edge the image
is mirrored as there. Nothing is clipped, and what is no number becomes one NaN
(`stoker.ops.float_levels`).
"""

from typing import Any

import numpy as np

from stoker.ops.extend import place
from stoker.ops.float_levels import number, plain_number
from stoker.ops.windows import mirror_ends
from stoker.rng.jit import kernel


@kernel
def begin_floats(line: Any, at: Any, weight: Any, sums: Any) -> None:
    """Set the sums to a line's values, from index `at` on, times the weight."""
    for j in range(np.uint64(sums.size)):
        sums[j] = weight * line[at + j]


@kernel
def add_floats(line: Any, a: Any, b: Any, weight: Any, sums: Any) -> None:
    """Add the values at index `a` and at index `b`, times the weight."""
    for j in range(np.uint64(sums.size)):
        sums[j] = sums[j] + weight * (line[a + j] + line[b + j])


@kernel
def store_floats(sums: Any, image: Any, at: Any) -> None:
    """Write sums, from index `at` on."""
    for j in range(np.uint64(sums.size)):
        image[at + j] = number(sums[j])


@kernel
def copy_sums(sums: Any, row: Any, at: Any) -> None:
    """Write sums of columns, from index `at` on."""
    for j in range(np.uint64(sums.size)):
        row[at + j] = sums[j]


@kernel
def smooth_bytes(width: int, channels: int, radius: int) -> int:
    """Return the scratch bytes that `smooth_floats` needs besides the weights."""
    return 4 * (2 * width + 2 * radius) * channels


@kernel
def smooth_floats(src: Any, dst: Any, weights: Any, scratch: Any) -> None:
    """Filter an image along both axes.

    Args:
        src: `(H, W, C) float32`.
        dst: the same shape, other memory.
        weights: `(radius + 1,) float32`.
        scratch: `smooth_bytes` bytes, contents undefined.
    """
    height, width, channels = src.shape
    image, result = src.reshape(src.size), dst.reshape(dst.size)
    stride, radius = width * channels, len(weights) - 1
    sums = scratch[: 4 * stride].view(np.float32)
    row = scratch[4 * stride : smooth_bytes(width, channels, radius)].view(np.float32)
    for y in range(height):
        begin_floats(image, np.uint64(y * stride), weights[0], sums)
        for i in range(1, radius + 1):
            above = np.uint64(place(y - i, height, 1) * stride)
            below = np.uint64(place(y + i, height, 1) * stride)
            add_floats(image, above, below, weights[i], sums)
        copy_sums(sums, row, np.uint64(radius * channels))
        mirror_ends(row, width, channels, radius)
        begin_floats(row, np.uint64(radius * channels), weights[0], sums)
        for i in range(1, radius + 1):
            left, right = (radius - i) * channels, (radius + i) * channels
            add_floats(row, np.uint64(left), np.uint64(right), weights[i], sums)
        store_floats(sums, result, np.uint64(y * stride))


def plain_smooth_floats(image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return `(H, W, C)` float32 filtered along both axes, with NumPy; as `smooth_floats`."""
    radius = len(weights) - 1
    for axis in (0, 1):
        size = image.shape[axis]
        places = [place(i, size, 1) for i in range(-radius, size + radius)]
        wide = np.take(image, places, axis)
        total = weights[0] * image
        for i in range(1, radius + 1):
            before, after = (
                np.take(wide, range(at, at + size), axis) for at in (radius - i, radius + i)
            )
            total = total + weights[i] * (before + after)
        image = total
    return plain_number(image)
