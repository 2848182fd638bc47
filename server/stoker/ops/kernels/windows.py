"""The parts that filters share: weighted sums of a few rows, then along the row, in fixed point.

Weights are integers of sum 2**16, symmetric: `weights[i]` applies to both pixels i away. A pass
over rows keeps 8 fraction bits in uint16; both passes round halves up. The largest sum is
65280 * 2**16 + 2**23, below 2**32. Beyond an edge the image is mirrored at its outermost pixel,
repeatedly if the window is longer than the image.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.extend import place

UNIT: Final = 65536
HALF8: Final = np.uint32(1 << 7)
HALF24: Final = np.uint32(1 << 23)
S8: Final = np.uint32(8)
S24: Final = np.uint32(24)


@kernel
def times(weight: Any, level: Any) -> Any:
    """Multiply in uint32."""
    return np.uint32(weight * np.uint32(level))


@kernel
def begin_sums(line: Any, at: Any, weight: Any, first: Any, sums: Any) -> None:
    """Set the sums to `first` plus a line's values, from index `at` on, times the weight."""
    for j in range(np.uint64(sums.size)):
        sums[j] = np.uint32(first + times(weight, line[at + j]))


@kernel
def add_pair(line: Any, a: Any, b: Any, weight: Any, sums: Any) -> None:
    """Add the values at index `a` and at index `b`, times the weight."""
    for j in range(np.uint64(sums.size)):
        pair = np.uint32(np.uint32(line[a + j]) + np.uint32(line[b + j]))
        sums[j] = np.uint32(sums[j] + np.uint32(weight * pair))


@kernel
def store_row(sums: Any, row: Any, at: Any) -> None:
    """Write sums with 8 fraction bits, from index `at` on."""
    for j in range(np.uint64(sums.size)):
        row[at + j] = np.uint16(sums[j] >> S8)


@kernel
def store_levels(sums: Any, image: Any, at: Any) -> None:
    """Write sums as gray levels, from index `at` on."""
    for j in range(np.uint64(sums.size)):
        image[at + j] = np.uint8(sums[j] >> S24)


@kernel
def mirror_ends(row: Any, width: int, channels: int, radius: int) -> None:
    """Write `radius` mirrored pixels at both ends of a row of radius + width + radius pixels."""
    for x in range(radius):
        for end in range(2):
            at = -1 - x if end == 0 else width + x
            source = (place(at, width, 1) + radius) * channels
            for c in range(channels):
                row[(at + radius) * channels + c] = row[source + c]


@kernel
def smooth(src: Any, dst: Any, weights: Any, row: Any, sums: Any) -> None:
    """Filter an image along both axes.

    Args:
        src: `(H, W, C) uint8`.
        dst: the same shape, not overlapping `src`.
        weights: `(radius + 1,) uint32`; `weights[0] + 2 * sum(weights[1:])` is 2**16.
        row: `((W + 2 * radius) * C,) uint16`, contents undefined.
        sums: `(W * C,) uint32`, contents undefined.
    """
    height, width, channels = src.shape
    image, result = src.reshape(src.size), dst.reshape(dst.size)
    stride, radius = width * channels, len(weights) - 1
    for y in range(height):
        begin_sums(image, np.uint64(y * stride), weights[0], HALF8, sums)
        for i in range(1, radius + 1):
            above = np.uint64(place(y - i, height, 1) * stride)
            below = np.uint64(place(y + i, height, 1) * stride)
            add_pair(image, above, below, weights[i], sums)
        store_row(sums, row, np.uint64(radius * channels))
        mirror_ends(row, width, channels, radius)
        begin_sums(row, np.uint64(radius * channels), weights[0], HALF24, sums)
        for i in range(1, radius + 1):
            left, right = (radius - i) * channels, (radius + i) * channels
            add_pair(row, np.uint64(left), np.uint64(right), weights[i], sums)
        store_levels(sums, result, np.uint64(y * stride))


def plain_smooth(image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return `(H, W, C)` int64 filtered along both axes, with NumPy; like `smooth`."""
    radius = len(weights) - 1
    both = np.concatenate([weights[:0:-1], weights]).astype(np.int64)
    for axis, first, shift in ((0, int(HALF8), 8), (1, int(HALF24), 24)):
        size = image.shape[axis]
        places = [place(i, size, 1) for i in range(-radius, size + radius)]
        wide = np.take(image.astype(np.int64), places, axis)
        total = np.full(image.shape, first, np.int64)
        for i, weight in enumerate(both):
            total += weight * np.take(wide, range(i, i + size), axis)
        image = total >> shift
    return image
