"""Nearest resize: output pixel i takes the source pixel floor((i + 0.5) * scale).

Pillow's NEAREST bit for bit: the position is summed in float64, 0.5*scale + scale + ...,
which decides the ties (odd multiples of scale / 2 that are integers). For every dtype: values
are copied, never mixed.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.pixels import copy4, pick3
from stoker.ops.kernels.runs import copy_run

K3: Final = np.uint64(3)


@kernel
def nearest_bytes(size_x: int) -> int:
    """Return the scratch bytes of one nearest resize."""
    return (8 * size_x + 63) // 64 * 64


@kernel
def fill_nearest(size_in: int, first: int, step: int, index: Any) -> None:
    """Write (first + source pixel) * step for every output pixel into `(size_out,) int64`."""
    scale = size_in / len(index)
    at = scale * 0.5
    for i in range(len(index)):
        index[i] = (first + min(int(at), size_in - 1)) * step
        at += scale


@kernel
def nearest(src: Any, box: Any, dst: Any, scratch: Any) -> None:
    """Resize the box of an image to the size of `dst`.

    Args:
        src: `(H, W, C)` of any dtype, contiguous.
        box: (top, left, height, width) in pixels, inside of `src`.
        dst: `(h, w, C)` of the same dtype, contiguous.
        scratch: `(nearest_bytes(w),) uint8`.
    """
    top, left, height, width = box
    size_y, size_x, channels = dst.shape
    index = scratch[: 8 * size_x].view(np.uint64)
    fill_nearest(width, left, channels, index)
    image, result = src.reshape(src.size), dst.reshape(dst.size)
    scale = height / size_y
    at = scale * 0.5
    line = size_x * channels
    before = -1
    for y in range(size_y):
        source = top + min(int(at), height - 1)
        row, to = np.uint64(source * src.shape[1] * channels), np.uint64(y * line)
        if source == before:
            copy_run(result, (y - 1) * line, result, y * line, line)
        elif channels == 1:
            row1(image, row, index, result, to)
        elif channels == 3:
            row3(image, row, index, result, to)
        else:
            for x in range(np.uint64(size_x)):
                for c in range(np.uint64(channels)):
                    result[to + x * np.uint64(channels) + c] = image[row + index[x] + c]
        before = source
        at += scale


@kernel
def row1(image: Any, row: Any, index: Any, result: Any, to: Any) -> None:
    """Write one output row of single values."""
    for x in range(np.uint64(len(index))):
        result[to + x] = image[row + index[x]]


@kernel
def row3(image: Any, row: Any, index: Any, result: Any, to: Any) -> None:
    """Write one output row of three values, from left to right."""
    last = np.uint64(len(index) - 1)
    start, target = np.int64(row), np.int64(to)
    if start + np.int64(index[last]) + 4 <= image.size:
        for x in range(last):
            copy4(image, start + np.int64(index[x]), result, target + 3 * np.int64(x))
    else:
        for x in range(last):
            pick3(image, start + np.int64(index[x]), result, target + 3 * np.int64(x))
    for c in range(np.uint64(3)):
        result[to + K3 * last + c] = image[row + index[last] + c]


def plain_index(size_in: int, size_out: int) -> np.ndarray:
    """Return the source pixel of every output pixel with NumPy; the reference of `fill_nearest`."""
    steps = np.full(size_out, size_in / size_out)
    steps[0] *= 0.5
    return np.minimum(np.cumsum(steps).astype(np.int64), size_in - 1)


def plain_nearest(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize the first two axes with NumPy; the reference of `nearest`."""
    rows, columns = plain_index(image.shape[0], size[0]), plain_index(image.shape[1], size[1])
    picked: np.ndarray = image[rows[:, None], columns]
    return picked
