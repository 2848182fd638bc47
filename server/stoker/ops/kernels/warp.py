"""Sample an image at positions in fixed point: bilinear for images, nearest for masks.

A position is a point in the source, in units of 2**-24 pixels; pixel i covers [i, i + 1). Output
pixels whose position is outside of the source are filled, image and mask alike. Inside, nearest
takes the pixel that contains the position; bilinear mixes the four pixels whose centers surround
it, with weights of 11 bits, and edge pixels replace those beyond the edge.

Everything after the position is integer arithmetic, for images of floats exact products in float64
and three sums of them, where every NaN is written as the same NaN: the same everywhere, compiled or
not.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.cut import fill_run
from stoker.ops.kernels.float_levels import plain_number, settle
from stoker.ops.kernels.pixels import PART, ROUND, SHIFT, WEIGHT, mix1, mix4, pick3
from stoker.rng.maths import floor

FILTERS: Final = ("nearest", "bilinear")
BILINEAR: Final = 1
BITS: Final = 24
"""Fraction bits of a position."""
UNIT: Final = 16777216.0
"""2**BITS."""
DROP: Final = 13
"""Bits that a position loses to become a place with 11 bits of weight."""
BEFORE: Final = 4096 - 8388608
"""Half a weight's unit, to round; less half a pixel, since pixels are sampled at their centers."""
MASK: Final = 2047


@kernel
def fixed(x: float) -> int:
    """Return a number of pixels as a position, rounded to the nearest, halves up."""
    return floor(x * UNIT + 0.5)


@kernel
def span(start: int, step: int, limit: int, count: int) -> tuple[int, int]:
    """Return (first, end) of the x in [0, count) with 0 <= start + step * x < limit."""
    if step == 0:
        return (0, count) if 0 <= start < limit else (0, 0)
    if step > 0:
        first, end = -(start // step), (limit - 1 - start) // step + 1
    else:
        first, end = -((limit - 1 - start) // -step), start // -step + 1
    first = min(max(first, 0), count)
    return first, max(min(end, count), first)


@kernel
def warp_affine(src: Any, dst: Any, steps: Any, bilinear: int, fill: Any) -> None:
    """Sample at positions that are linear in the output pixel.

    Args:
        src: `(H, W, C)` of any dtype, contiguous; uint8, uint16 or float32 for bilinear.
        dst: `(h, w, C)` of the same dtype, contiguous.
        steps: (ax, bx, cx, ay, by, cy), int64: output (y, x) has the position
            (ax * x + bx * y + cx, ay * x + by * y + cy), horizontal first.
        bilinear: 1, or 0 for nearest.
        fill: at least C values.
    """
    ax, bx, cx, ay, by, cy = steps
    height, width, channels = src.shape
    size_y, size_x, _ = dst.shape
    image, result = src.reshape(src.size), dst.reshape(dst.size)
    for y in range(size_y):
        qx, qy = bx * y + cx, by * y + cy
        first, end = span(qx, ax, width << BITS, size_x)
        low, high = span(qy, ay, height << BITS, size_x)
        first = max(first, low)
        end = max(min(end, high), first)
        row = y * size_x
        fill_run(result, row * channels, first, channels, fill)
        line = (qx + ax * first, qy + ay * first, ax, ay)
        to = (row + first) * channels
        if bilinear == 1 and channels == 3:
            low, high = inner_span((qx, qy, ax, ay), (height, width), size_x)
            low = min(max(low, first), end)
            high = min(max(high, low), end)
            sample_run(image, src.shape, line, (np.int64(0), low - first), 1, result, to)
            mix_run(image, width, line, (low - first, high - first), result, to)
            sample_run(image, src.shape, line, (high - first, end - first), 1, result, to)
        elif bilinear == 0 and channels == 3:
            nearest3(image, width, line, end - first, result, to)
        elif bilinear == 0 and channels == 1:
            nearest1(image, width, line, end - first, result, to)
        else:
            run = (np.int64(0), end - first)
            sample_run(image, src.shape, line, run, bilinear, result, to)
        if bilinear == 1:
            settle(result, np.uint64(to), np.uint64((end - first) * channels))
        fill_run(result, (row + end) * channels, size_x - end, channels, fill)


@kernel
def inner_span(line: Any, size: Any, count: int) -> tuple[int, int]:
    """Return (first, end) of the pixels of an output row that `mix_run` may write.

    The four source pixels of such a pixel, and the one right of them, are inside of the source; it
    is not the last pixel of its row.

    Args:
        line: (px, py, ax, ay): position of the row's first pixel, and the step along the row.
        size: (height, width) of the source.
        count: pixels of the row.
    """
    px, py, ax, ay = line
    height, width = size
    first, end = span(px + BEFORE, ax, (width - 2) << BITS, count - 1)
    low, high = span(py + BEFORE, ay, (height - 1) << BITS, count - 1)
    return max(first, low), min(end, high)


@kernel
def mix_run(image: Any, width: int, line: Any, run: Any, result: Any, to: int) -> None:
    """Write pixels of three channels whose neighbors are all inside of the source.

    Args:
        image: flat source.
        width: pixels of a source row.
        line: (px, py, ax, ay): position of pixel 0, and the step from pixel to pixel.
        run: (first, end) of the pixels to write.
        result: flat, of the same dtype.
        to: index of pixel 0's first value.
    """
    px, py, ax, ay = line
    first, end = run
    for x in range(first, end):
        mix_at(image, width, px + ax * x, py + ay * x, result, to + 3 * x)


@kernel
def mix_at(image: Any, width: int, px: Any, py: Any, result: Any, to: Any) -> None:
    """Write the pixel at a position as `mix_run` does."""
    tx, ty = (px + BEFORE) >> DROP, (py + BEFORE) >> DROP
    above = ((ty >> 11) * width + (tx >> 11)) * 3
    mix4(image, above, above + 3 * width, tx & MASK, ty & MASK, result, to)


@kernel
def is_inner(px: int, py: int, height: int, width: int) -> bool:
    """Whether `mix_at` may handle a position, unless it writes the last pixel of the output."""
    return 0 <= px + BEFORE < (width - 2) << BITS and 0 <= py + BEFORE < (height - 1) << BITS


@kernel
def sample_run(
    image: Any, shape: Any, line: Any, run: Any, bilinear: int, result: Any, to: int
) -> None:
    """Write pixels of any number of channels whose positions are inside of the source.

    `shape` is the source's; `bilinear` is as in `warp_affine`; the rest is as in `mix_run`.
    """
    px, py, ax, ay = line
    first, end = run
    for x in range(first, end):
        at = np.uint64(to + x * shape[2])
        sample(image, shape, px + ax * x, py + ay * x, bilinear, result, at)


@kernel
def nearest1(image: Any, width: int, line: Any, count: int, result: Any, to: int) -> None:
    """Write a run of pixels of one value, all of whose positions are inside of the source."""
    px, py, ax, ay = line
    for x in range(count):
        result[np.uint64(to + x)] = image[np.uint64((py >> BITS) * width + (px >> BITS))]
        px += ax
        py += ay


@kernel
def nearest3(image: Any, width: int, line: Any, count: int, result: Any, to: int) -> None:
    """Write a run of pixels of three values; see `nearest1`."""
    px, py, ax, ay = line
    for x in range(count):
        pick3(image, ((py >> BITS) * width + (px >> BITS)) * 3, result, to + 3 * x)
        px += ax
        py += ay


@kernel
def sample(image: Any, shape: Any, px: int, py: int, bilinear: int, result: Any, to: Any) -> None:
    """Write the pixel at a position inside of the source, of any number of channels."""
    height, width, channels = shape
    if bilinear == 0:
        i = np.uint64(((py >> BITS) * width + (px >> BITS)) * channels)
        for n in range(np.uint64(channels)):
            result[to + n] = image[i + n]
        return
    tx, ty = (px + BEFORE) >> DROP, (py + BEFORE) >> DROP
    x0, y0 = tx >> 11, ty >> 11
    left, right = max(x0, 0), min(x0 + 1, width - 1)
    above, below = width * max(y0, 0), width * min(y0 + 1, height - 1)
    fx, fy = tx & MASK, ty & MASK
    d = fx * fy
    c, b = fy * WEIGHT - d, fx * WEIGHT - d
    a = WEIGHT * WEIGHT - b - c - d
    i, j = np.uint64((above + left) * channels), np.uint64((above + right) * channels)
    k, m = np.uint64((below + left) * channels), np.uint64((below + right) * channels)
    for n in range(np.uint64(channels)):
        mix1(image, (i + n, j + n, k + n, m + n), (a, b, c, d), result, to + n)


def plain_positions(shape: tuple[int, ...], steps: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of all output pixels, `(h, w) int64` each."""
    ax, bx, cx, ay, by, cy = (int(s) for s in steps)
    y, x = np.mgrid[: shape[0], : shape[1]].astype(np.int64)
    return ax * x + bx * y + cx, ay * x + by * y + cy


def plain_sample(
    src: np.ndarray, dst: np.ndarray, at: Any, bilinear: int, fill: np.ndarray
) -> None:
    """Sample with NumPy; the reference of `warp_affine` and `sample`.

    Args:
        src: `(H, W, C)` or `(H, W)`.
        dst: `(h, w, C)` or `(h, w)`.
        at: (horizontal, vertical, inside): positions `(h, w) int64`, and which of them are valid.
        bilinear: 1, or 0 for nearest.
        fill: at least C values.
    """
    height, width = src.shape[:2]
    qx, qy, inside = at
    inside = inside & (qx >= 0) & (qx < width << BITS) & (qy >= 0) & (qy < height << BITS)
    qx, qy = np.where(inside, qx, 0), np.where(inside, qy, 0)
    got = plain_bilinear(src, qx, qy) if bilinear else src[qy >> BITS, qx >> BITS]
    fills = fill[: src.shape[2]] if src.ndim == 3 else fill[0]
    dst[...] = np.where(inside[..., None] if src.ndim == 3 else inside, got, fills)


def plain_bilinear(src: np.ndarray, qx: np.ndarray, qy: np.ndarray) -> np.ndarray:
    """Return `(h, w, C)` of the levels or floats at positions."""
    height, width, _ = src.shape
    tx, ty = (qx + BEFORE) >> DROP, (qy + BEFORE) >> DROP
    fx, fy = (tx & MASK)[..., None], (ty & MASK)[..., None]
    left, right = np.maximum(tx >> 11, 0), np.minimum((tx >> 11) + 1, width - 1)
    above, below = np.maximum(ty >> 11, 0), np.minimum((ty >> 11) + 1, height - 1)
    if src.dtype == np.float32:
        shares = [
            (WEIGHT - fx) * (WEIGHT - fy), fx * (WEIGHT - fy), (WEIGHT - fx) * fy, fx * fy,
        ]  # fmt: skip
        a, b, c, d = (share * PART for share in shares)
        with np.errstate(all="ignore"):
            deep = src.astype(np.float64)
            total = deep[above, left] * a + deep[above, right] * b
            total = total + deep[below, left] * c + deep[below, right] * d
            return plain_number(total.astype(np.float32))
    wide = src.astype(np.int64)
    upper = wide[above, left] * (WEIGHT - fx) + wide[above, right] * fx
    lower = wide[below, left] * (WEIGHT - fx) + wide[below, right] * fx
    levels: np.ndarray = (upper * (WEIGHT - fy) + lower * fy + ROUND) >> SHIFT
    return levels


def plain_warp_affine(
    src: np.ndarray, dst: np.ndarray, steps: Any, bilinear: int, fill: np.ndarray
) -> None:
    """Sample with NumPy; the reference of `warp_affine`."""
    plain_sample(src, dst, (*plain_positions(dst.shape, steps), True), bilinear, fill)
