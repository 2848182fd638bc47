"""Planes of a JPEG file from pixels and back: luma, and chroma of half the sides (4:2:0).

A plane's sides are whole blocks of 8. Luma beyond the image repeats the last column and row. A
value of chroma is the mean of 2 by 2 pixels, (sum + 1) >> 2 in even and (sum + 2) >> 2 in odd
columns; beyond the image the last column of pixels is repeated, and the last row of means.

In the inverse, chroma is smoothed: three parts of the nearest value and one of the next, along both
axes, (sum + 8) >> 4 in even and (sum + 7) >> 4 in odd columns of the image; beyond its edges chroma
repeats. Chroma of at most two columns is not smoothed. All of this is libjpeg's default.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.color import K1, K2, K3, luma
from stoker.ops.kernels.runs import copy_run
from stoker.ops.kernels.ycbcr import chroma, colors, plain_to_rgb, plain_to_ycbcr

BLOCK: Final = 8
ONE: Final = np.uint64(1)


@kernel
def whole_blocks(side: int) -> int:
    """Return a side rounded up to whole blocks."""
    return (side + BLOCK - 1) // BLOCK * BLOCK


@kernel
def half(side: int) -> int:
    """Return the side of chroma."""
    return (side + 1) // 2


@kernel
def fill_luma(src: Any, plane: Any, stride: int) -> None:
    """Write the luma of an image `(H, W, 1 or 3)` to a flat plane of `stride` columns."""
    height, width, channels = src.shape
    image = src.reshape(src.size)
    for y in range(height):
        at, to = np.uint64(y * width * channels), np.uint64(y * stride)
        if channels == 1:
            for x in range(np.uint64(width)):
                plane[to + x] = image[at + x]
        else:
            for x in range(np.uint64(width)):
                k = at + K3 * x
                plane[to + x] = luma(image[k], image[k + K1], image[k + K2])
        for x in range(y * stride + width, (y + 1) * stride):
            plane[np.uint64(x)] = plane[np.uint64(y * stride + width - 1)]
    repeat_row(plane, height, stride)


@kernel
def repeat_row(plane: Any, rows: int, stride: int) -> None:
    """Repeat row `rows - 1` of a flat plane down to its end."""
    for y in range(rows, plane.size // stride):
        copy_run(plane, (rows - 1) * stride, plane, y * stride, stride)


@kernel
def fill_chroma(src: Any, blue: Any, red: Any, stride: int) -> None:
    """Write the chroma of an image `(H, W, 3)` to two flat planes of `stride` columns."""
    height, width, _ = src.shape
    image = src.reshape(src.size)
    inner = width // 2
    for y in range(half(height)):
        upper, lower = 2 * y * width, min(2 * y + 1, height - 1) * width
        to = y * stride
        for x in range(inner):
            left = (3 * (upper + 2 * x), 3 * (lower + 2 * x))
            right = (left[0] + 3, left[1] + 3)
            blue[np.uint64(to + x)], red[np.uint64(to + x)] = mean4(image, left, right, 1 + x % 2)
        for x in range(inner, stride):
            column = min(2 * x, width - 1)
            next_column = min(2 * x + 1, width - 1)
            left = (3 * (upper + column), 3 * (lower + column))
            right = (3 * (upper + next_column), 3 * (lower + next_column))
            blue[np.uint64(to + x)], red[np.uint64(to + x)] = mean4(image, left, right, 1 + x % 2)
    repeat_row(blue, half(height), stride)
    repeat_row(red, half(height), stride)


@kernel
def mean4(image: Any, left: Any, right: Any, bias: int) -> Any:
    """Return the mean (Cb, Cr) of four pixels: (upper, lower) left and right, as flat indices."""
    b0, r0 = chroma_at(image, left[0])
    b1, r1 = chroma_at(image, right[0])
    b2, r2 = chroma_at(image, left[1])
    b3, r3 = chroma_at(image, right[1])
    return (b0 + b1 + b2 + b3 + bias) >> 2, (r0 + r1 + r2 + r3 + bias) >> 2


@kernel
def chroma_at(image: Any, at: int) -> Any:
    """Return (Cb, Cr) of the pixel that begins at a flat index."""
    k = np.uint64(at)
    red, green, blue = np.int32(image[k]), np.int32(image[k + K1]), np.int32(image[k + K2])
    return chroma(red, green, blue)


@kernel
def write_gray(plane: Any, stride: int, dst: Any) -> None:
    """Write an image `(H, W, 1)` from a plane of luma."""
    height, width, _ = dst.shape
    result = dst.reshape(dst.size)
    for y in range(height):
        copy_run(plane, y * stride, result, y * width, width)


@kernel
def write_colors(planes: Any, strides: Any, dst: Any, lines: Any) -> None:
    """Write an image `(H, W, 3)` from three flat planes.

    Args:
        planes: (luma, blue, red).
        strides: columns of (luma, chroma).
        dst: `(H, W, 3) uint8`.
        lines: int32 scratch: one of `half(W)` values, two of `2 * half(W)`.
    """
    height, width, _ = dst.shape
    gray, blue, red = planes
    sums, line_b, line_r = lines
    result = dst.reshape(dst.size)
    last, count = half(height) - 1, np.uint64(width)
    for y in range(height):
        row = y // 2
        beside = row
        if half(width) > 2:
            beside = min(max(row - 1 + 2 * (y % 2), 0), last)
        smooth_row(blue, row * strides[1], beside * strides[1], sums, line_b)
        smooth_row(red, row * strides[1], beside * strides[1], sums, line_r)
        at, to = np.uint64(y * strides[0]), np.uint64(3 * y * width)
        for x in range(count):
            r, g, b = colors(np.int32(gray[at + x]), line_b[x], line_r[x])
            k = to + K3 * x
            result[k] = r
            result[k + K1] = g
            result[k + K2] = b


@kernel
def smooth_row(plane: Any, row: int, beside: int, sums: Any, line: Any) -> None:
    """Write a row of chroma at the image's width, from its own row and an adjacent one.

    `row` and `beside` are flat indices; `sums` is as long as a row of chroma, `line` twice as long.
    """
    count, a, b = np.uint64(sums.size), np.uint64(row), np.uint64(beside)
    if sums.size <= 2:
        for x in range(count):
            line[K2 * x] = line[K2 * x + ONE] = plane[a + x]
        return
    for x in range(count):
        sums[x] = 3 * np.int32(plane[a + x]) + np.int32(plane[b + x])
    last = count - ONE
    line[0] = (4 * sums[0] + 8) >> 4
    line[K2 * last + ONE] = (4 * sums[last] + 7) >> 4
    for x in range(last):
        line[K2 * x + ONE] = (3 * sums[x] + sums[x + ONE] + 7) >> 4
        line[K2 * x + K2] = (3 * sums[x + ONE] + sums[x] + 8) >> 4


def plain_planes(src: np.ndarray) -> list[np.ndarray]:
    """Return the planes of `(H, W, 1 or 3)` int64 in whole blocks, with NumPy."""
    height, width = src.shape[:2]
    if src.shape[2] == 1:
        return [plain_padded(src[..., 0], whole_blocks(height), whole_blocks(width))]
    both = plain_to_ycbcr(src)
    tall, wide = half(height), whole_blocks(half(width))
    wider = plain_padded(both[..., 1:], 2 * tall, 2 * wide)
    total = wider.reshape(tall, 2, wide, 2, 2).sum((1, 3))
    means = (total + 1 + np.arange(wide)[:, None] % 2) >> 2
    means = plain_padded(means, whole_blocks(tall), wide)
    gray = plain_padded(both[..., 0], whole_blocks(height), whole_blocks(width))
    return [gray, means[..., 0], means[..., 1]]


def plain_padded(plane: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return a plane that repeats its last row and column up to a size."""
    more = [(0, height - plane.shape[0]), (0, width - plane.shape[1])]
    return np.pad(plane, [*more, *[(0, 0)] * (plane.ndim - 2)], "edge")


def plain_image(planes: list[np.ndarray], height: int, width: int) -> np.ndarray:
    """Return `(H, W, 1 or 3)` from planes, with NumPy."""
    gray = planes[0][:height, :width]
    if len(planes) == 1:
        return gray[..., None]
    tall, wide = half(height), half(width)
    parts = [plain_smooth(plane[:tall, :wide])[:height, :width] for plane in planes[1:]]
    return plain_to_rgb(np.stack([gray, *parts], -1))


def plain_smooth(plane: np.ndarray) -> np.ndarray:
    """Return chroma of twice the size, smoothed."""
    if plane.shape[1] <= 2:
        return plane.repeat(2, 0).repeat(2, 1)
    wide = np.pad(plane, 1, "edge")
    rows = np.stack([3 * plane + wide[:-2, 1:-1], 3 * plane + wide[2:, 1:-1]], 1)
    rows = rows.reshape(-1, plane.shape[1])
    wide = np.pad(rows, ((0, 0), (1, 1)), "edge")
    both = [(3 * rows + wide[:, :-2] + 8) >> 4, (3 * rows + wide[:, 2:] + 7) >> 4]
    return np.stack(both, -1).reshape(len(rows), -1)
