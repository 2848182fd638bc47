"""Filtered resize of uint8 images: two passes over tap tables, the pixels of Pillow bit for bit.

Each pass sums taps in int32 and rounds and clips to uint8; the image between the passes is uint8.
The order of the passes is that of Pillow 13, see `vertical_first`. A crop is cut before it is
resized: pixels outside of it are read only with weight 0. An axis that keeps its size has one tap
of weight 1 and is skipped.

The vertical pass blends whole rows, contiguous bytes; the horizontal one blends four pixels of some
rows at once (`stoker.ops.kernels.tap_sums`).

Scratch, each part aligned to 64 bytes: tables of both axes, a float64 row of taps, int64 places of
the rows that are blended, copies of the last rows, the image between the passes.
"""

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.reorder import copy_rows
from stoker.ops.kernels.tap_sums import blend_columns, blend_rows
from stoker.ops.kernels.tap_tables import fill_table
from stoker.ops.kernels.taps import PRECISION, plain_taps, tap_bound, tap_count, whole_span


@kernel
def vertical_first(height: int, width: int, size_y: int, size_x: int) -> bool:
    """Whether the height shrinks by more than twice as many pixels as the width."""
    return height - size_y > 2 * max(width - size_x, 0)


@kernel
def padded(size: int) -> int:
    """Return a number of bytes rounded up to whole cache lines."""
    return (size + 63) // 64 * 64


@kernel
def table_bytes(size_in: int, size_out: int, filter_id: int) -> int:
    """Return the scratch bytes of one axis: int32 firsts and weights."""
    return padded(4 * size_out) + padded(4 * size_out * tap_bound(size_in, size_out, filter_id))


@kernel
def line_bytes(width: int, channels: int, size_x: int) -> int:
    """Return the bytes of the longer of a source row and an output row."""
    return max(width, size_x) * channels


@kernel
def work_bytes(height: int, width: int, channels: int, size_y: int, size_x: int, taps: int) -> int:
    """Return the scratch bytes besides the tables."""
    line = line_bytes(width, channels, size_x)
    return (
        2 * padded(8 * taps) + padded(16 * (width + taps + 4)) + padded(line * max(height, size_y))
    )


@kernel
def scratch_bytes(
    height: int, width: int, channels: int, size_y: int, size_x: int, filter_id: int
) -> int:
    """Return the scratch bytes of one resize; it never decreases when the source grows."""
    taps = max(tap_bound(width, size_x, filter_id), tap_bound(height, size_y, filter_id))
    tables = table_bytes(width, size_x, filter_id) + table_bytes(height, size_y, filter_id)
    return tables + work_bytes(height, width, channels, size_y, size_x, taps)


@kernel
def rooms(
    height: int, width: int, channels: int, size_y: int, size_x: int, filter_id: int, scratch: Any
) -> Any:
    """Split scratch into its parts.

    Returns:
        (space of the tables across and down), a float64 row of taps, (room for copies of rows, the
        row of taps, int64 places of rows), and the image between the passes.
    """
    taps = max(tap_bound(width, size_x, filter_id), tap_bound(height, size_y, filter_id))
    line = line_bytes(width, channels, size_x)
    a = table_bytes(width, size_x, filter_id)
    b = a + table_bytes(height, size_y, filter_id)
    c = b + padded(8 * taps)
    d = c + padded(8 * taps)
    e = d + padded(16 * (width + taps + 4))
    row = scratch[b : b + 8 * taps].view(np.float64)
    places = scratch[c : c + 8 * taps].view(np.int64)
    work = (scratch[d:e], row, places)
    between = scratch[e : e + line * max(height, size_y)]
    return (scratch[:a], scratch[a:b]), row, work, between


@kernel
def is_whole(span: Any, size_in: int) -> bool:
    """Return whether a span is the whole axis."""
    start, length = whole_span(size_in)
    return bool(span[0] == start and span[1] == length)


@kernel
def make_table(size_in: int, span: Any, size_out: int, filter_id: int, space: Any, row: Any) -> Any:
    """Write the tap table of one axis into scratch; return (first, split weights, count)."""
    count = tap_count(size_in, span, size_out, filter_id)
    start = padded(4 * size_out)
    first = space[: 4 * size_out].view(np.int32)
    words = space[start : start + 4 * size_out * count].view(np.int32)
    fill_table(size_in, span, size_out, filter_id, count, first, words, row)
    return first, words, count


@kernel
def horizontal(
    src: Any, source: Any, rows: int, channels: int, dst: Any, table: Any, work: Any
) -> None:
    """Run the horizontal pass: every row of a source to a row of `dst`; see `blend_columns`."""
    blend_columns(src, source, rows, channels, dst, table, work[0])


@kernel
def resample(src: Any, box: Any, dst: Any, filter_id: int, scratch: Any) -> None:
    """Resize the box of an image to the size of `dst`.

    Args:
        src: `(H, W, C) uint8`, contiguous.
        box: (top, left, height, width) in pixels, inside of `src`.
        dst: `(h, w, C) uint8`, contiguous.
        filter_id: number of the filter, as in `stoker.ops.kernels.taps`.
        scratch: `(scratch_bytes(height, width, C, h, w, filter_id),) uint8`, aligned to 64 bytes.
    """
    resample_spans(src, box, (whole_span(box[2]), whole_span(box[3])), dst, filter_id, scratch)


@kernel
def resample_spans(src: Any, box: Any, spans: Any, dst: Any, filter_id: int, scratch: Any) -> None:
    """Resize a part of an image whose ends are between the edges of pixels.

    Args:
        src: as for `resample`.
        box: the pixels that the part touches: (top, left, height, width), inside of `src`.
        spans: (start, length) of the part in the box, down and across, in pixels, float64.
        dst: as for `resample`.
        filter_id: as for `resample`.
        scratch: as for `resample`.
    """
    top, left, height, width = box
    size_y, size_x, channels = dst.shape
    tables, row, work, between = rooms(height, width, channels, size_y, size_x, filter_id, scratch)
    image, result = src.reshape(src.size), dst.reshape(dst.size)
    start = np.int64(0)  # a plain 0 would be another type, and compile the passes once more
    stride = src.shape[1] * channels
    at = top * stride + left * channels
    # One tap of weight 1 for each pixel changes nothing: such a pass is skipped.
    keeps_y = height == size_y and is_whole(spans[0], height)
    keeps_x = width == size_x and is_whole(spans[1], width)
    if keeps_y and keeps_x:
        copy_rows(image, (at, stride), result, (start, width * channels), height, width * channels)
        return
    across = make_table(width, spans[1], size_x, filter_id, tables[0], row)
    down = make_table(height, spans[0], size_y, filter_id, tables[1], row)
    places = work[2]
    if keeps_y:
        horizontal(image, (at, stride, width), height, channels, result, across, work)
    elif keeps_x:
        blend_rows(image, (at, stride, height - 1), down, result, width * channels, places)
    elif vertical_first(height, width, size_y, size_x):
        blend_rows(image, (at, stride, height - 1), down, between, width * channels, places)
        source = (start, width * channels, width)
        horizontal(between, source, size_y, channels, result, across, work)
    else:
        horizontal(image, (at, stride, width), height, channels, between, across, work)
        source = (start, size_x * channels, height - 1)
        blend_rows(between, source, down, result, size_x * channels, places)


def plain_pass(
    image: np.ndarray, size_out: int, filter_id: int, span: tuple[float, float] | None = None
) -> np.ndarray:
    """Resize the first axis, or a span of it, with NumPy; the reference of both passes."""
    size_in = image.shape[0]
    span = span or whole_span(size_in)
    if size_in == size_out and is_whole(span, size_in):
        return image
    first, weights = plain_taps(size_in, span, size_out, filter_id)
    total = np.full((size_out, *image.shape[1:]), 1 << (PRECISION - 1), np.int64)
    for k in range(weights.shape[1]):
        rows = image[np.minimum(first + k, size_in - 1)].astype(np.int64)
        total += rows * weights[:, k].reshape(-1, *[1] * (image.ndim - 1))
    levels: np.ndarray = np.clip(total >> PRECISION, 0, 255).astype(np.uint8)
    return levels


def plain_resample(
    image: np.ndarray,
    size: tuple[int, int],
    filter_id: int,
    run: Any = plain_pass,
    spans: tuple[tuple[float, float], tuple[float, float]] | None = None,
) -> np.ndarray:
    """Resize `(H, W, C)` with NumPy, one axis per `run`; the reference of `resample_spans`."""
    height, width = image.shape[:2]
    axes = (0, 1) if vertical_first(height, width, size[0], size[1]) else (1, 0)
    for axis in axes:
        of = () if spans is None else (spans[axis],)
        image = run(image.swapaxes(0, axis), size[axis], filter_id, *of).swapaxes(0, axis)
    return image
