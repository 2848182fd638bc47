"""Filtered resize of images of floats: Pillow's mode F, channel by channel, in float32.

Windows, filters and the order of the passes are those of `kernels.resample`; weights are those
of `kernels.taps`, rounded to float32. A pass adds weight * value, first tap first, beginning
with the first product; every product and every sum is rounded once. With n taps the error is at
most (n + 2) * 2**-24 of the sum of |weight * value|. Nothing is clipped, so a bicubic or Lanczos
result may overshoot. An axis that keeps its size is skipped.

Every NaN sum is written as the same NaN (`stoker.ops.kernels.float_levels`).

If the horizontal pass comes first, a row is made when the vertical pass (`kernels.float_sums`
has both) needs it, so that it is read from a near cache.

Scratch, each part aligned to 64 bytes: tables of both axes, a float64 row of taps, the image
between the passes.
"""

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.float_levels import plain_number
from stoker.ops.kernels.float_sums import (
    ROWS,
    alike,
    blend_columns,
    blend_rows,
    blend_run,
    window_of,
)
from stoker.ops.kernels.part import source_part
from stoker.ops.kernels.reorder import copy_rows
from stoker.ops.kernels.resample import line_bytes, padded, vertical_first
from stoker.ops.kernels.runs import copy_run
from stoker.ops.kernels.taps import fill_float_taps, plain_float_taps, radius_of, tap_bound


@kernel
def float_table_bytes(size_in: int, size_out: int, filter_id: int) -> int:
    """Return the scratch bytes of one axis: two int32 for each output pixel, and weights."""
    return padded(8 * size_out) + padded(4 * size_out * tap_bound(size_in, size_out, filter_id))


@kernel
def float_work_bytes(
    height: int, width: int, channels: int, size_y: int, size_x: int, taps: int
) -> int:
    """Return the scratch bytes besides the tables, for windows of up to `taps`."""
    between = padded(4 * line_bytes(width, channels, size_x) * max(height, size_y))
    return padded(8 * taps) + between


@kernel
def float_scratch_bytes(
    height: int, width: int, channels: int, size_y: int, size_x: int, filter_id: int
) -> int:
    """Return the scratch bytes of one resize; it never decreases when the source grows."""
    taps = max(tap_bound(width, size_x, filter_id), tap_bound(height, size_y, filter_id))
    down = float_table_bytes(height, size_y, filter_id)
    across = float_table_bytes(width, size_x, filter_id)
    return down + across + float_work_bytes(height, width, channels, size_y, size_x, taps)


@kernel
def float_table(size_in: int, size_out: int, filter_id: int, space: Any, row: Any) -> Any:
    """Write the tap table of one axis into scratch; return (spans, weights, weights of each)."""
    most = tap_bound(size_in, size_out, filter_id)
    start = padded(8 * size_out)
    spans = space[: 8 * size_out].view(np.int32)
    weights = space[start : start + 4 * size_out * most].view(np.float32)
    fill_float_taps(size_in, size_out, filter_id, most, spans, weights, row)
    return spans, weights, most


@kernel
def rows_kept(most: int, rows: int) -> int:
    """Return how many source rows are kept between the passes, for windows up to `most`."""
    return min(rows, 4 * most)


@kernel
def blend_both(
    s: Any, source: Any, sizes: Any, across: Any, down: Any, between: Any, out: Any
) -> None:
    """Blend pixels of rows, then the rows: each is made when the first output row needs it.

    Args:
        s: flat float32 source.
        source: as in `blend_columns`.
        sizes: (rows of the source, channels).
        across: (table, part) of the columns, as in `blend_columns`.
        down: (table, part) of the rows.
        between: flat float32, for `rows_kept` rows.
        out: flat float32, rows without gaps.
    """
    at, stride, width = source
    rows, channels = sizes
    table, (first, count, origin) = down
    weights, line = table[1], across[1][1] * channels
    kept = rows_kept(table[2], rows)
    begin, end = 0, 0  # rows of the source that are available
    for y in range(count):
        low, taps, k = window_of(table, first + y, origin)
        while end < low + taps:
            if end == begin + kept:
                still = min(low, rows - ROWS)
                copy_run(between, (still - begin) * line, between, 0, (end - still) * line)
                begin = still
            most = min(begin + kept, rows)
            new = max(min(end, most - ROWS), begin)
            end = min(new + ROWS, most)
            begun = (at + new * stride, stride, width)
            to = (new - begin) * line
            blend_columns(s, begun, end - new, channels, across[0], across[1], between, to)
        window = (low - begin, taps, k)
        blend_run(between, (np.int64(0), line), weights, window, out, y * line, line)


@kernel
def resample_floats(
    src: Any, box: Any, size: Any, part: Any, dst: Any, filter_id: int, scratch: Any
) -> None:
    """Write a part of the box of an image resized to `size`.

    Args:
        src: `(H, W, C) float32`, contiguous.
        box: (top, left, height, width) in pixels, inside of `src`.
        size: (height, width) of the whole result.
        part: (top, left, height, width) in it.
        dst: flat float32, at least height * width * C of the part.
        filter_id: number of the filter, as in `stoker.ops.kernels.taps`.
        scratch: `(float_scratch_bytes(height, width, C, *size, filter_id),) uint8` of the box,
            aligned to 64 bytes.
    """
    height, width, channels = box[2], box[3], src.shape[2]
    size_y, size_x = size
    top, left, tall, wide = part
    image = src.reshape(src.size)
    start: Any = np.int64(0)  # a plain 0 would be another type, and compile the passes once more
    stride = src.shape[1] * channels
    at = box[0] * stride + box[1] * channels
    if height == size_y and width == size_x:
        line, begun = wide * channels, at + top * stride + left * channels
        copy_rows(image, (begun, stride), dst, (start, line), tall, line)
        return
    y0, x0, rows, columns = source_part(
        (height, width, size_y, size_x), part, float(radius_of(filter_id))
    )
    taps = max(tap_bound(width, size_x, filter_id), tap_bound(height, size_y, filter_id))
    a = float_table_bytes(width, size_x, filter_id)
    b = a + float_table_bytes(height, size_y, filter_id)
    c = b + padded(8 * taps)
    row = scratch[b : b + 8 * taps].view(np.float64)
    across = float_table(width, size_x, filter_id, scratch[:a], row)
    down = float_table(height, size_y, filter_id, scratch[a:b], row)
    of_x, of_y = (left, wide, x0, alike(across, left, wide)), (top, tall, y0)
    source = (at + y0 * stride + x0 * channels, stride, columns)
    if height == size_y:
        source = (at + top * stride + x0 * channels, stride, columns)
        blend_columns(image, source, tall, channels, across, of_x, dst, start)
    elif width == size_x:
        begun, line = at + y0 * stride + left * channels, wide * channels
        blend_rows(image, (begun, stride), down, of_y, dst, line)
    elif vertical_first(height, width, size_y, size_x):
        line = columns * channels
        between = scratch[c : c + 4 * tall * line].view(np.float32)
        blend_rows(image, (source[0], stride), down, of_y, between, line)
        blend_columns(between, (start, line, columns), tall, channels, across, of_x, dst, start)
    else:
        kept = rows_kept(down[2], rows)
        between = scratch[c : c + 4 * kept * wide * channels].view(np.float32)
        blend_both(image, source, (rows, channels), (across, of_x), (down, of_y), between, dst)


def plain_float_pass(image: np.ndarray, size_out: int, filter_id: int) -> np.ndarray:
    """Resize the first axis with NumPy; the reference of both passes."""
    size_in = image.shape[0]
    if size_in == size_out:
        return image
    first, count, weights = plain_float_taps(size_in, size_out, filter_id)
    shape = (-1, *[1] * (image.ndim - 1))
    with np.errstate(all="ignore"):
        total = image[first] * weights[:, 0].reshape(shape)
        for k in range(1, weights.shape[1]):
            rows = image[np.minimum(first + k, size_in - 1)]
            more = total + rows * weights[:, k].reshape(shape)
            total = np.where((k < count).reshape(shape), more, total)
        return plain_number(total)
