"""Filtered resize of images of floats: the pixels of Pillow's mode F, channel by channel.

Windows, filters and the order of the passes are those of `stoker.ops.resample`. A pass sums in
float64, first tap first, beginning with 0, and rounds to float32 once; nothing is clipped, so a
bicubic result may overshoot. An axis that keeps its size is passed over.

A sum that is no number is written as one NaN (`stoker.ops.float_levels`).

The vertical pass blends rows, which are contiguous, a block at a time.

Scratch, each part aligned to 64 bytes: tables of both axes, float64 sums, the image between the
passes.
"""

from typing import Any, Final

import numpy as np

from stoker.ops.float_levels import number, plain_number, settle
from stoker.ops.part import source_part
from stoker.ops.reorder import copy_rows
from stoker.ops.resample import line_bytes, padded, vertical_first
from stoker.ops.taps import fill_float_taps, plain_float_taps, tap_bound
from stoker.rng.jit import kernel

BLOCK: Final = 512
"""Values of a run that are summed at a time: their sums stay in the nearest cache."""
ZERO: Final = np.float64(0)
K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)


@kernel
def float_table_bytes(size_in: int, size_out: int, bicubic: int) -> int:
    """Return the scratch bytes of one axis: two int32 of each output pixel, and weights."""
    return padded(8 * size_out) + padded(8 * size_out * tap_bound(size_in, size_out, bicubic))


@kernel
def float_work_bytes(height: int, width: int, channels: int, size_y: int, size_x: int) -> int:
    """Return the scratch bytes beside the tables."""
    return 8 * BLOCK + padded(4 * line_bytes(width, channels, size_x) * max(height, size_y))


@kernel
def float_scratch_bytes(
    height: int, width: int, channels: int, size_y: int, size_x: int, bicubic: int
) -> int:
    """Return the scratch bytes of one resize; it never falls when the source grows."""
    down = float_table_bytes(height, size_y, bicubic)
    across = float_table_bytes(width, size_x, bicubic)
    return down + across + float_work_bytes(height, width, channels, size_y, size_x)


@kernel
def float_table(size_in: int, size_out: int, bicubic: int, space: Any) -> Any:
    """Write the tap table of one axis into scratch; return (spans, weights, weights of each)."""
    most = tap_bound(size_in, size_out, bicubic)
    start = padded(8 * size_out)
    spans = space[: 8 * size_out].view(np.int32)
    weights = space[start : start + 8 * size_out * most].view(np.float64)
    fill_float_taps(size_in, size_out, bicubic, most, spans, weights)
    return spans, weights, most


@kernel
def begin_run(s: Any, a: Any, step: Any, w: Any, dst: Any, to: Any, n: Any) -> None:
    """Write the sums of the first 1 to 4 taps, one for each weight.

    Args:
        s: flat float32; the taps' runs begin at `a` and `step` further each.
        a: index.
        step: values from tap to tap.
        w: weights.
        dst: float64, or float32 where these are all taps.
        to: first index written.
        n: values of a run.
    """
    b, c, d = a + step, a + step + step, a + step + step + step
    w0 = w[0]
    if w.size == 1:
        for j in range(n):
            dst[to + j] = ZERO + np.float64(s[a + j]) * w0
    elif w.size == 2:
        w1 = w[1]
        for j in range(n):
            dst[to + j] = ZERO + np.float64(s[a + j]) * w0 + np.float64(s[b + j]) * w1
    elif w.size == 3:
        w1, w2 = w[1], w[2]
        for j in range(n):
            total = ZERO + np.float64(s[a + j]) * w0 + np.float64(s[b + j]) * w1
            dst[to + j] = total + np.float64(s[c + j]) * w2
    else:
        w1, w2, w3 = w[1], w[2], w[3]
        for j in range(n):
            total = ZERO + np.float64(s[a + j]) * w0 + np.float64(s[b + j]) * w1
            dst[to + j] = total + np.float64(s[c + j]) * w2 + np.float64(s[d + j]) * w3


@kernel
def add_run(s: Any, a: Any, step: Any, w: Any, sums: Any, dst: Any, to: Any, n: Any) -> None:
    """Write sums and four more taps; as `begin_run`."""
    b, c, d = a + step, a + step + step, a + step + step + step
    w0, w1, w2, w3 = w[0], w[1], w[2], w[3]
    for j in range(n):
        total = sums[j] + np.float64(s[a + j]) * w0 + np.float64(s[b + j]) * w1
        dst[to + j] = total + np.float64(s[c + j]) * w2 + np.float64(s[d + j]) * w3


@kernel
def blend_runs(s: Any, source: Any, table: Any, part: Any, out: Any, line: int, sums: Any) -> None:
    """Write the weighted sums of runs, for some output pixels of an axis.

    Args:
        s: flat float32 source.
        source: (index of the run of tap `origin`, values from run to run).
        table: from `float_table`.
        part: (first output pixel, how many, origin).
        out: flat float32, runs without gaps.
        line: values of a run.
        sums: `(BLOCK,) float64`, contents undefined.
    """
    spans, weights, most = table
    at, stride = source
    first, count, origin = part
    step, none = np.uint64(stride), np.uint64(0)
    for i in range(count):
        index = first + i
        low, taps = np.int64(spans[2 * index]) - origin, np.int64(spans[2 * index + 1])
        w, begun = weights[index * most : index * most + taps], (taps - 1) % 4 + 1
        for start in range(0, line, BLOCK):
            n = np.uint64(min(BLOCK, line - start))
            a, to = np.uint64(at + low * stride + start), np.uint64(i * line + start)
            if begun == taps:
                begin_run(s, a, step, w, out, to, n)
            else:
                begin_run(s, a, step, w[:begun], sums, none, n)
                for k in range(begun, taps - 4, 4):
                    add_run(s, a + step * np.uint64(k), step, w[k : k + 4], sums, sums, none, n)
                a += step * np.uint64(taps - 4)
                add_run(s, a, step, w[taps - 4 :], sums, out, to, n)
            settle(out, to, n)


@kernel
def blend_columns(
    s: Any, source: Any, rows: int, channels: int, table: Any, part: Any, out: Any
) -> None:
    """Write the weighted sums of pixels beside each other, for some pixels of every row.

    Args:
        s: flat float32 source.
        source: (index of the pixel of tap `origin` in the first row, values from row to row).
        rows: rows to do.
        channels: values of a pixel.
        table: from `float_table`.
        part: as of `blend_runs`.
        out: flat float32, rows without gaps.
    """
    spans, weights, most = table
    at, stride = source
    first, count, origin = part
    step = np.uint64(channels)
    for y in range(rows):
        for i in range(count):
            index = first + i
            low, taps = np.int64(spans[2 * index]) - origin, np.uint64(spans[2 * index + 1])
            a, w = np.uint64(at + y * stride + low * channels), np.uint64(index * most)
            to = np.uint64((y * count + i) * channels)
            if channels == 3 and taps == K2:
                sum3_of_2(s, a, (weights[w], weights[w + K1]), out, to)
            elif channels == 3:
                sum3(s, a, weights, w, taps, out, to)
            else:
                for c in range(step):
                    total = ZERO
                    for k in range(taps):
                        total = total + np.float64(s[a + c + k * step]) * weights[w + k]
                    out[to + c] = number(np.float32(total))


@kernel
def sum3_of_2(s: Any, a: Any, weights: Any, out: Any, to: Any) -> None:
    """Write the weighted sums of two pixels of three values: the most of what is enlarged."""
    w0, w1 = weights
    for c in range(K3):
        total = ZERO + np.float64(s[a + c]) * w0 + np.float64(s[a + c + K3]) * w1
        out[to + c] = number(np.float32(total))


@kernel
def sum3(s: Any, a: Any, weights: Any, w: Any, taps: Any, out: Any, to: Any) -> None:
    """Write the weighted sums of pixels of three values."""
    red, green, blue = ZERO, ZERO, ZERO
    for k in range(taps):
        weight, pixel = weights[w + k], a + K3 * k
        red = red + np.float64(s[pixel]) * weight
        green = green + np.float64(s[pixel + K1]) * weight
        blue = blue + np.float64(s[pixel + K2]) * weight
    out[to] = number(np.float32(red))
    out[to + K1] = number(np.float32(green))
    out[to + K2] = number(np.float32(blue))


@kernel
def resample_floats(
    src: Any, box: Any, size: Any, part: Any, dst: Any, bicubic: int, scratch: Any
) -> None:
    """Write a part of what the box of an image becomes when it is resized to `size`.

    Args:
        src: `(H, W, C) float32`, contiguous.
        box: (top, left, height, width) in pixels, inside of `src`.
        size: (height, width) of the whole result.
        part: (top, left, height, width) in it.
        dst: flat float32, at least height * width * C of the part.
        bicubic: 1 for the cubic filter, 0 for the triangle.
        scratch: `(float_scratch_bytes(height, width, C, *size, bicubic),) uint8` of the box,
            aligned to 64 bytes.
    """
    height, width, channels = box[2], box[3], src.shape[2]
    size_y, size_x = size
    top, left, tall, wide = part
    image, start = src.reshape(src.size), np.int64(0)
    stride = src.shape[1] * channels
    at = box[0] * stride + box[1] * channels
    if height == size_y and width == size_x:
        target = (start, wide * channels)
        source = (at + top * stride + left * channels, stride)
        copy_rows(image, source, dst, target, tall, wide * channels)
        return
    y0, x0, rows, columns = source_part(
        (height, width, size_y, size_x), part, 2.0 if bicubic else 1.0
    )
    a = float_table_bytes(width, size_x, bicubic)
    b = a + float_table_bytes(height, size_y, bicubic)
    across = float_table(width, size_x, bicubic, scratch[:a])
    down = float_table(height, size_y, bicubic, scratch[a:b])
    sums, between = scratch[b : b + 8 * BLOCK].view(np.float64), scratch[b + 8 * BLOCK :]
    of_x, of_y = (left, wide, x0), (top, tall, y0)
    if height == size_y:
        source = (at + top * stride + x0 * channels, stride)
        blend_columns(image, source, tall, channels, across, of_x, dst)
    elif width == size_x:
        source = (at + y0 * stride + left * channels, stride)
        blend_runs(image, source, down, of_y, dst, wide * channels, sums)
    elif vertical_first(height, width, size_y, size_x):
        source, line = (at + y0 * stride + x0 * channels, stride), columns * channels
        rest = between[: 4 * tall * line].view(np.float32)
        blend_runs(image, source, down, of_y, rest, line, sums)
        blend_columns(rest, (start, line), tall, channels, across, of_x, dst)
    else:
        source, line = (at + y0 * stride + x0 * channels, stride), wide * channels
        rest = between[: 4 * rows * line].view(np.float32)
        blend_columns(image, source, rows, channels, across, of_x, rest)
        blend_runs(rest, (start, line), down, of_y, dst, line, sums)


def plain_float_pass(image: np.ndarray, size_out: int, bicubic: int) -> np.ndarray:
    """Resize the first axis with NumPy; the reference of both passes."""
    size_in = image.shape[0]
    if size_in == size_out:
        return image
    first, count, weights = plain_float_taps(size_in, size_out, bicubic)
    total = np.zeros((size_out, *image.shape[1:]))
    shape = (-1, *[1] * (image.ndim - 1))
    with np.errstate(all="ignore"):
        for k in range(weights.shape[1]):
            rows = image[np.minimum(first + k, size_in - 1)].astype(np.float64)
            more = total + rows * weights[:, k].reshape(shape)
            total = np.where((k < count).reshape(shape), more, total)
        return plain_number(total.astype(np.float32))
