"""Sample an image at projected positions, row by row.

The parts of a row's positions that depend only on columns are computed once for all rows. Nearest
needs only the index of the source pixel, so its positions never become fixed point; most of a row
is so far inside of the source that its pixels need no checks, and several are computed at a time.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.cut import fill_run
from stoker.ops.kernels.sampling_points import pick_row, pick_run, sample_row
from stoker.ops.kernels.warp import BITS, UNIT

HALF_UNIT: Final = 2.0**-25
"""Half a unit of `stoker.ops.kernels.warp`'s positions, in pixels."""
REACH: Final = 2.0**-24
"""Fraction of the terms of a linear number below which its sign is treated as unknown."""
LONGEST: Final = 1 << 31
"""Sides of a source whose pixels int32 cannot count."""


@kernel
def projection_bytes(width: int) -> int:
    """Return the scratch bytes of `warp_projection`: positions of a row, three terms of columns."""
    return 40 * width


@kernel
def warp_projection(
    src: Any, dst: Any, numbers: Any, bilinear: int, fill: Any, scratch: Any
) -> None:
    """Sample at projected positions.

    Args:
        src: `(H, W, C)` of any dtype, contiguous; uint8, uint16 or float32 for bilinear.
        dst: `(h, w, C)` of the same dtype, contiguous.
        numbers: from `stoker.ops.kernels.projection.projection`.
        bilinear: 1, or 0 for nearest.
        fill: at least C values.
        scratch: `(projection_bytes(w),) uint8`.
    """
    size_y, size_x, channels = dst.shape
    result = dst.reshape(dst.size)
    across = scratch[: 8 * size_x].view(np.int64)
    down = scratch[8 * size_x : 16 * size_x].view(np.int64)
    along = (
        scratch[16 * size_x : 24 * size_x].view(np.float64),
        scratch[24 * size_x : 32 * size_x].view(np.float64),
        scratch[32 * size_x : 40 * size_x].view(np.float64),
    )
    write_columns(numbers, along)
    for y in range(size_y):
        start = row_start(numbers, y)
        inner, outer = row_spans(numbers, start, src.shape, size_x)
        if bilinear == 0 and channels in (1, 3):
            nearest_row(
                src, result, y * size_x * channels, along, start, (inner, outer), fill, across
            )
        else:
            project_row(along, start, src.shape, outer, (across, down))
            sample_row(src, dst, y, (across, down), bilinear, fill)


@kernel
def write_columns(numbers: Any, along: Any) -> None:
    """Write the contributions of the output columns to X, Y and Z, `(w,) float64` each."""
    slope_x, _, _, slope_y, _, _, slope_z, _, _ = numbers
    to_x, to_y, to_z = along
    for x in range(len(to_x)):
        to_x[x], to_y[x], to_z[x] = slope_x * x, slope_y * x, slope_z * x


@kernel
def row_start(numbers: Any, y: int) -> Any:
    """Return X, Y and Z at the start of a row of output pixels."""
    _, n1, n2, _, n4, n5, _, n7, n8 = numbers
    return n1 * y + n2, n4 * y + n5, n7 * y + n8


@kernel
def project_row(along: Any, start: Any, shape: Any, outer: Any, places: Any) -> None:
    """Write the positions of a row of output pixels; pixels without one get -1 across.

    Args:
        along: from `write_columns`.
        start: from `row_start`.
        shape: the source's.
        outer: from `row_spans`.
        places: as in `sample_row`.
    """
    across, down = places
    for x in range(np.uint64(outer[0])):
        across[x] = -1
    for x in range(np.uint64(outer[0]), np.uint64(outer[1])):
        across[x], down[x] = projected(along, start, x, shape)
    for x in range(np.uint64(outer[1]), np.uint64(len(across))):
        across[x] = -1


@kernel
def nearest_row(
    src: Any, result: Any, to: int, along: Any, start: Any, spans: Any, fill: Any, at: Any
) -> None:
    """Write a row of nearest pixels, of one channel or three.

    Args:
        src: `(H, W, C)`, contiguous.
        result: flat, of the same dtype.
        to: index of the row's first value.
        along: from `write_columns`.
        start: from `row_start`.
        spans: from `row_spans`.
        fill: values of pixels without a position; at least C values.
        at: `(w,) int64`, overwritten.
    """
    channels, image = src.shape[2], src.reshape(src.size)
    (first, end), (low, high) = spans
    fill_run(result, to, low, channels, fill)
    index_any(along, start, src.shape, (low, first), at)
    pick_row(image, at[low:first], fill, channels, result, to + low * channels)
    index_sure(along, start, src.shape[1], (first, end), at)
    pick_run(image, at, (first, end), channels, result, to)
    index_any(along, start, src.shape, (end, high), at)
    pick_row(image, at[end:high], fill, channels, result, to + end * channels)
    fill_run(result, to + high * channels, len(at) - high, channels, fill)


@kernel
def index_any(along: Any, start: Any, shape: Any, run: Any, at: Any) -> None:
    """Write the source pixel of each pixel of a row; -1 if there is none.

    Pixels are numbered row by row; `run` is (first, end) of the pixels to compute; the rest is as
    in `project_row`.
    """
    for x in range(np.uint64(run[0]), np.uint64(run[1])):
        px, py = projected(along, start, x, shape)
        at[x] = (py >> BITS) * shape[1] + (px >> BITS) if px >= 0 else -1


@kernel
def index_sure(along: Any, start: Any, width: int, run: Any, at: Any) -> None:
    """Do what `index_any` does if all pixels have positions, as `row_spans` reports.

    A position rounded to units of 2**-24 and then down to a pixel is the pixel of the position plus
    half a unit: scaling by a power of two is exact. Processors of any age can convert several
    float64 at a time to int32.
    """
    along_x, along_y, along_z = along
    start_x, start_y, start_z = start
    pixels = np.int64(np.int32(width))
    for x in range(np.uint64(run[0]), np.uint64(run[1])):
        part = 1.0 / (along_z[x] + start_z)
        fx, fy = (along_x[x] + start_x) * part, (along_y[x] + start_y) * part
        row, column = np.int32(fy + HALF_UNIT), np.int32(fx + HALF_UNIT)
        at[x] = np.int64(row) * pixels + np.int64(column)


@kernel
def projected(along: Any, start: Any, x: Any, shape: Any) -> Any:
    """Return the position of a pixel of a row, horizontal first; -1 and 0 if there is none."""
    height, width = shape[0], shape[1]
    z = along[2][x] + start[2]
    seen = z > 0.0
    part = 1.0 / (z if seen else 1.0)
    fx, fy = (along[0][x] + start[0]) * part, (along[1][x] + start[1]) * part
    seen = seen and 0.0 <= fx < width and 0.0 <= fy < height
    # As `fixed`, which rounds down: truncation is enough for numbers that are not negative.
    px, py = int((fx if seen else 0.0) * UNIT + 0.5), int((fy if seen else 0.0) * UNIT + 0.5)
    # A position that rounding takes to the far edge is outside.
    seen = seen and px < width << BITS and py < height << BITS
    return px if seen else -1, py if seen else 0


@kernel
def row_spans(numbers: Any, start: Any, shape: Any, count: int) -> Any:
    """Return two (first, end): of pixels that all have positions, and of all that may have one.

    The first is inside of the second.

    A pixel has a position if five numbers that are linear in x are positive: X, Y, Z, W Z - X
    and H Z - Y. A number that is further from 0 than 2**-24 of its terms keeps its sign when it is
    computed, because rounding changes less than 2**-50 of them; and then X / Z is so far from W
    that half a unit of a position does not reach it.

    Args:
        numbers: from `projection`.
        start: from `row_start`.
        shape: the source's.
        count: pixels of the row.
    """
    height, width = shape[0], shape[1]
    inner, outer = (np.int64(0), np.int64(count)), (np.int64(0), np.int64(count))
    if height >= LONGEST or width >= LONGEST:
        return (np.int64(0), np.int64(0)), outer
    slope_x, slope_y, slope_z = numbers[0], numbers[3], numbers[6]
    start_x, start_y, start_z = start
    reach_z = REACH * (abs(slope_z) * count + abs(start_z))
    reach_x = REACH * (abs(slope_x) * count + abs(start_x)) + width * reach_z
    reach_y = REACH * (abs(slope_y) * count + abs(start_y)) + height * reach_z
    for slope, begin, reach in (
        (slope_x, start_x, reach_x),
        (slope_y, start_y, reach_y),
        (slope_z, start_z, reach_z),
        (width * slope_z - slope_x, width * start_z - start_x, reach_x),
        (height * slope_z - slope_y, height * start_z - start_y, reach_y),
    ):
        inner = clipped(slope, begin - reach, 2, inner)
        outer = clipped(slope, begin + reach, 0, outer)
    return inner if inner[0] < inner[1] else (outer[0], outer[0]), outer


@kernel
def clipped(slope: float, start: float, spare: int, span: Any) -> Any:
    """Return the part of a span of x where slope * x + start is positive.

    It is up to two pixels shorter at its new end if `spare` is 2, and longer if it is 0: the
    quotient is rounded.
    """
    first, end = span
    if slope == 0.0:
        return (first, end) if start > 0.0 else (first, first)
    root = int(min(max(-start / slope, -2.0), float(end)))
    if slope > 0.0:
        return min(max(root + spare, first), end), end
    return first, max(min(root + 2 - spare, end), first)
