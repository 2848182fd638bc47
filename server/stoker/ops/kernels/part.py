"""A part of a resized image, without the rest: for a crop after a resize.

Pixels, rounding and the order of the passes are those of the whole resize, bit for bit: the tap
tables are those of the whole axes, of which only the part's entries are used, and each pass runs
over the rows and columns that these read. Nothing outside of `source_part` is read.
"""

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.nearest import fill_nearest
from stoker.ops.kernels.resample import horizontal, make_table, rooms, vertical_first
from stoker.ops.kernels.tap_sums import blend_rows
from stoker.ops.kernels.taps import radius_of, whole_span, window


@kernel
def source_range(size_in: int, size_out: int, first: int, count: int, radius: float) -> Any:
    """Return the source pixels (first, end) of one axis that some output pixels depend on.

    Args:
        size_in: source pixels of the axis.
        size_out: output pixels of the axis.
        first: first output pixel of the part.
        count: output pixels of the part, at least one.
        radius: of the filter in output pixels, from `taps.radius_of`; 0 nearest.
    """
    scale = size_in / size_out
    if radius == 0.0:
        # Positions of nearest are sums of steps: a pixel on either side covers their rounding.
        low = max(int((first + 0.5) * scale) - 1, 0)
        return low, min(int((first + count - 0.5) * scale) + 2, size_in)
    support = radius * max(scale, 1.0)
    low = window((first + 0.5) * scale, support, size_in)[0]
    return low, window((first + count - 1 + 0.5) * scale, support, size_in)[1]


@kernel
def source_part(sizes: Any, part: Any, radius: float) -> Any:
    """Return the box of the source that a part of the result depends on.

    Args:
        sizes: height and width of the source, then of the whole result.
        part: (top, left, height, width) in the result.
        radius: as for `source_range`.
    """
    y0, y1 = source_range(sizes[0], sizes[2], part[0], part[2], radius)
    x0, x1 = source_range(sizes[1], sizes[3], part[1], part[3], radius)
    return y0, x0, y1 - y0, x1 - x0


@kernel
def shifted(table: Any, first: int, count: int, origin: int) -> Any:
    """Return a table's entries for some output pixels, their taps counted from `origin`."""
    starts, weights, taps = table
    some = starts[first : first + count]
    for index in range(count):
        some[index] -= np.int32(origin)
    return some, weights[first * taps : (first + count) * taps], taps


@kernel
def resample_part(src: Any, size: Any, part: Any, dst: Any, filter_id: int, scratch: Any) -> None:
    """Write a part of the image resized to `size`.

    Args:
        src: `(H, W, C) uint8`, contiguous.
        size: (height, width) of the whole result.
        part: (top, left, height, width) in it.
        dst: flat uint8, at least height * width * C of the part.
        filter_id: number of the filter, as in `stoker.ops.kernels.taps`.
        scratch: `(resample.scratch_bytes(H, W, C, *size, filter_id),) uint8`, aligned to 64 bytes.
    """
    height, width, channels = src.shape
    size_y, size_x = size
    top, left, tall, wide = part
    radius = float(radius_of(filter_id))
    tables, row, work, between = rooms(height, width, channels, size_y, size_x, filter_id, scratch)
    sums = work[2]
    image = src.reshape(src.size)
    y0, x0, rows, columns = source_part((height, width, size_y, size_x), part, radius)
    of_x, of_y = whole_span(width), whole_span(height)
    across = shifted(make_table(width, of_x, size_x, filter_id, tables[0], row), left, wide, x0)
    down = shifted(make_table(height, of_y, size_y, filter_id, tables[1], row), top, tall, y0)
    stride = width * channels
    at = y0 * stride + x0 * channels
    start = np.int64(0)
    if vertical_first(height, width, size_y, size_x):
        blend_rows(image, (at, stride, rows - 1), down, between, columns * channels, sums)
        source = (start, columns * channels, columns)
        horizontal(between, source, tall, channels, dst, across, work)
    else:
        horizontal(image, (at, stride, columns), rows, channels, between, across, work)
        blend_rows(between, (start, wide * channels, rows - 1), down, dst, wide * channels, sums)


@kernel
def nearest_part(src: Any, size: Any, part: Any, dst: Any, scratch: Any) -> None:
    """Write a part of the image resized to `size` with nearest.

    Args:
        src: `(H, W, C)` of any dtype, contiguous.
        size: (height, width) of the whole result.
        part: (top, left, height, width) in it.
        dst: flat, of the same dtype, at least height * width * C of the part.
        scratch: `(nearest_bytes(size[1]),) uint8`.
    """
    height, width, channels = src.shape
    top, left, tall, wide = part
    index = scratch[: 8 * size[1]].view(np.uint64)
    origin: Any = np.int64(0)  # a plain 0 would be another type, and compile the pass once more
    fill_nearest(width, origin, channels, index)
    image = src.reshape(src.size)
    scale = height / size[0]
    at = scale * 0.5
    for _ in range(top):  # a sum of steps, like that of the whole
        at += scale
    n = np.uint64(channels)
    for y in range(tall):
        source = np.uint64(min(int(at), height - 1) * width * channels)
        to = np.uint64(y * wide * channels)
        for x in range(np.uint64(wide)):
            for k in range(n):
                dst[to + x * n + k] = image[source + index[np.uint64(left) + x] + k]
        at += scale
