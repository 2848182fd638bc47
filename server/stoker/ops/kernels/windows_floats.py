"""Filters of images of floats: the counterpart of `stoker.ops.kernels.windows`, in float32.

Weights are symmetric float32: `weights[i]` applies to both pixels i away. A sum begins with the
middle weight times its value; then, for i = 1, 2, ..., the sum of the two values i away times their
weight is added. Every operation is rounded once. Columns first, then rows; beyond an edge the image
is mirrored as there. Nothing is clipped, and every NaN becomes the same NaN
(`stoker.ops.kernels.float_levels`).
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.extend import place
from stoker.ops.kernels.float_levels import number, plain_number
from stoker.ops.kernels.resample import padded
from stoker.ops.kernels.windows import mirror_ends

WIDE: Final = 64
NARROW: Final = 16
"""Values of a block that `weigh64` and `weigh16` sum at once."""


@kernel
def weigh(line: Any, places: Any, weights: Any, count: int, dst: Any, to: int, n: int) -> None:
    """Write weighted sums of runs, value by value.

    Args:
        line: flat float32.
        places: int64, indices of the runs' first values: the middle one, then pairs that share a
            weight.
        weights: float32 of the middle run, then of each pair.
        count: pairs.
        dst: flat float32, not overlapping `line`.
        to: first index written.
        n: values of a run.
    """
    if n >= WIDE:
        weigh64(line, places, weights, count, dst, to, n)
    elif n >= NARROW:
        weigh16(line, places, weights, count, dst, to, n)
    else:
        for j in range(n):
            total = weights[0] * line[places[0] + j]
            for i in range(1, count + 1):
                both = line[places[2 * i - 1] + j] + line[places[2 * i] + j]
                total = total + weights[i] * both
            dst[to + j] = number(total)


@kernel(twin="stoker.ops.kernels.simd.float_windows:weigh64")
def weigh64(line: Any, places: Any, weights: Any, count: int, dst: Any, to: int, n: int) -> None:
    """Like `weigh`, for runs of at least 64 values."""
    plain_weigh(line, places, weights, count, dst[to : to + n])


@kernel(twin="stoker.ops.kernels.simd.float_windows:weigh16")
def weigh16(line: Any, places: Any, weights: Any, count: int, dst: Any, to: int, n: int) -> None:
    """Like `weigh`, for runs of at least 16 values."""
    plain_weigh(line, places, weights, count, dst[to : to + n])


def plain_weigh(line: Any, places: Any, weights: Any, count: int, out: np.ndarray) -> None:
    """Write weighted sums of runs with NumPy."""
    runs = [line[start : start + out.size] for start in places[: 2 * count + 1]]
    total = weights[0] * runs[0]
    for i in range(1, count + 1):
        total = total + weights[i] * (runs[2 * i - 1] + runs[2 * i])
    out[...] = plain_number(total)


@kernel
def smooth_bytes(width: int, channels: int, radius: int) -> int:
    """Return the scratch bytes of `smooth_floats` besides the weights."""
    return 2 * padded(8 * (2 * radius + 1)) + 4 * (width + 2 * radius) * channels


@kernel
def smooth_floats(src: Any, dst: Any, weights: Any, scratch: Any) -> None:
    """Filter an image along both axes.

    Args:
        src: `(H, W, C) float32`.
        dst: the same shape, not overlapping `src`.
        weights: `(radius + 1,) float32`.
        scratch: `smooth_bytes` bytes, aligned to 64, contents undefined.
    """
    height, width, channels = src.shape
    image, result = src.reshape(src.size), dst.reshape(dst.size)
    stride, radius = width * channels, len(weights) - 1
    count = 2 * radius + 1
    down, at = scratch[: 8 * count].view(np.int64), padded(8 * count)
    across, start = scratch[at : at + 8 * count].view(np.int64), 2 * at
    row = scratch[start : start + 4 * (width + 2 * radius) * channels].view(np.float32)
    across[0] = radius * channels
    for i in range(1, radius + 1):
        across[2 * i - 1], across[2 * i] = (radius - i) * channels, (radius + i) * channels
    for y in range(height):
        down[0] = y * stride
        for i in range(1, radius + 1):
            down[2 * i - 1] = place(y - i, height, 1) * stride
            down[2 * i] = place(y + i, height, 1) * stride
        weigh(image, down, weights, radius, row, radius * channels, stride)
        mirror_ends(row, width, channels, radius)
        weigh(row, across, weights, radius, result, y * stride, stride)


def plain_smooth_floats(image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return `(H, W, C)` float32 filtered along both axes, with NumPy; like `smooth_floats`."""
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
