"""Weighted sums of float32 over taps: the inner loops of a filtered resize of floats.

`blend_rows` makes output rows from rows, which are contiguous, four taps at a time; `blend_columns`
makes output pixels from pixels of a row, in four rows at once (`simd.float_sums`). A table is
(spans, weights, weights from one output pixel to the next): for every output pixel two int32, its
first tap and its number of taps, and as many float32.

A sum begins with the first tap's product; products and sums are rounded once each, in the order of
the taps. Every NaN is written as the same NaN (`stoker.ops.kernels.float_levels`).
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.float_levels import number

BLOCK: Final = 2048
"""Values of a run that are summed at a time: their sums stay in the nearest cache."""
ROWS: Final = 4
"""Rows that `blend_fours` blends at once."""
K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)


@kernel
def begin_run(
    s: Any, start: Any, taps: Any, weights: Any, k: Any, dst: Any, to: Any, n: Any
) -> None:
    """Write the sums of the first 1 to 4 taps.

    Args:
        s: flat float32.
        start: (index of the first tap's run, values from tap to tap).
        taps: number of taps.
        weights: flat float32.
        k: number of the first weight.
        dst: flat float32, not overlapping `s`.
        to: first index written.
        n: values of a run.
    """
    a, step = start
    b, c, d = a + step, a + step + step, a + step + step + step
    w0 = weights[k]
    if taps == 1:
        for j in range(n):
            dst[to + j] = number(s[a + j] * w0)
    elif taps == 2:
        w1 = weights[k + K1]
        for j in range(n):
            dst[to + j] = number(s[a + j] * w0 + s[b + j] * w1)
    elif taps == 3:
        w1, w2 = weights[k + K1], weights[k + K2]
        for j in range(n):
            dst[to + j] = number(s[a + j] * w0 + s[b + j] * w1 + s[c + j] * w2)
    else:
        w1, w2, w3 = weights[k + K1], weights[k + K2], weights[k + K3]
        for j in range(n):
            total = s[a + j] * w0 + s[b + j] * w1 + s[c + j] * w2 + s[d + j] * w3
            dst[to + j] = number(total)


@kernel
def add_run(s: Any, start: Any, weights: Any, k: Any, dst: Any, to: Any, n: Any) -> None:
    """Add four more taps to the sums; like `begin_run`."""
    a, step = start
    b, c, d = a + step, a + step + step, a + step + step + step
    w0, w1, w2, w3 = weights[k], weights[k + K1], weights[k + K2], weights[k + K3]
    for j in range(n):
        total = dst[to + j] + s[a + j] * w0 + s[b + j] * w1 + s[c + j] * w2 + s[d + j] * w3
        dst[to + j] = number(total)


@kernel
def blend_run(s: Any, source: Any, weights: Any, window: Any, out: Any, to: int, line: int) -> None:
    """Write the weighted sums of runs, for one output pixel of an axis.

    Args:
        s: flat float32 source.
        source: (index of run 0, values from run to run).
        weights: flat float32.
        window: (number of the first run, number of runs, number of the first weight).
        out: flat float32.
        to: first index written.
        line: values of a run.
    """
    at, stride = source
    low, taps, place = window
    begun, step, k = np.uint64((taps - 1) % 4 + 1), np.uint64(stride), np.uint64(place)
    for first in range(0, line, BLOCK):
        n, b = np.uint64(min(BLOCK, line - first)), np.uint64(to + first)
        a = np.uint64(at + low * stride + first)
        begin_run(s, (a, step), begun, weights, k, out, b, n)
        for tap in range(begun, np.uint64(taps), np.uint64(4)):
            add_run(s, (a + step * tap, step), weights, k + tap, out, b, n)


@kernel
def window_of(table: Any, index: int, origin: int) -> Any:
    """Return (first tap from `origin` on, number of taps, first weight) of an output pixel."""
    spans, _, most = table
    return np.int64(spans[2 * index]) - origin, np.int64(spans[2 * index + 1]), index * most


@kernel
def blend_rows(s: Any, source: Any, table: Any, part: Any, out: Any, line: int) -> None:
    """Write the weighted sums of runs, for some output pixels of an axis.

    Args:
        s: flat float32 source.
        source: (index of the run of tap `origin`, values from run to run).
        table: see above.
        part: (first output pixel, number of output pixels, origin).
        out: flat float32, runs without gaps.
        line: values of a run.
    """
    first, count, origin = part
    for i in range(count):
        window = window_of(table, first + i, origin)
        blend_run(s, source, table[1], window, out, i * line, line)


@kernel(twin="stoker.ops.kernels.simd.float_sums:blend_fours")
def blend_fours(
    s: Any, at: int, steps: Any, table: Any, run: Any, taps: int, out: Any, to: int
) -> None:
    """Write four adjacent weighted sums for each pixel of a run, in each of `ROWS` rows.

    Args:
        s: flat float32.
        at: index of the first value of tap 0 of the axis in the first row.
        steps: values (from pixel to pixel, from row to row, from row to row of `out`).
        table: see above.
        run: (first output pixel, number of output pixels).
        taps: number of taps of every output pixel; 0 if they differ.
        out: flat float32.
        to: index of the first value written.
    """
    spans, weights, most = table
    step, stride, line = steps
    for i in range(run[1]):
        index = run[0] + i
        low, k = spans[2 * index], index * most
        for y in range(ROWS):
            for c in range(4):
                a = at + y * stride + low * step + c
                total = s[a] * weights[k]
                for tap in range(1, spans[2 * index + 1]):
                    total = total + s[a + tap * step] * weights[k + tap]
                out[to + y * line + i * step + c] = number(total)


@kernel
def blend_pixels(s: Any, at: int, channels: int, table: Any, part: Any, out: Any, to: int) -> None:
    """Write some pixels of one row, value by value.

    Args:
        s: flat float32 source.
        at: index of the pixel of tap `origin`.
        channels: values of a pixel.
        table: see above.
        part: (first output pixel, number of output pixels, origin).
        out: flat float32.
        to: first index written.
    """
    spans, weights, most = table
    first, count, origin = part
    step = np.uint64(channels)
    for i in range(count):
        index = first + i
        a = np.uint64(at + (np.int64(spans[2 * index]) - origin) * channels)
        taps, w, b = np.uint64(spans[2 * index + 1]), np.uint64(index * most), np.uint64(to)
        for c in range(step):
            total = s[a + c] * weights[w]
            for k in range(np.uint64(1), taps):
                total = total + s[a + c + k * step] * weights[w + k]
            out[b + c] = number(total)
        to += channels


@kernel
def alike(table: Any, first: int, count: int) -> Any:
    """Find the pixels around the middle of a part that have the same number of taps, 2 or 4.

    Returns:
        (first of them, end, taps), counted from the part's first pixel; taps are 0 for others.
    """
    spans = table[0]
    begin, end = count // 2, count // 2
    taps = np.int64(spans[2 * (first + begin) + 1])
    if taps not in (2, 4):
        return begin, end, np.int64(0)
    while begin > 0 and spans[2 * (first + begin) - 1] == taps:
        begin -= 1
    while end < count and spans[2 * (first + end) + 1] == taps:
        end += 1
    return begin, end, taps


@kernel
def blend_group(
    s: Any, source: Any, channels: int, table: Any, part: Any, out: Any, to: int
) -> None:
    """Write the weighted sums of adjacent pixels, in `ROWS` rows; see `blend_columns`."""
    spans = table[0]
    at, stride, width = source
    first, count, origin, (begin, end, taps) = part
    line = count * channels
    # Four values of a tap are read and written: not for the last pixel, nor at the array's end.
    whole = count - 1 if 3 <= channels <= 4 else 0
    fits = at + (ROWS - 1) * stride + width * channels < s.size
    limit = origin + width - (0 if fits else 1)
    while whole > 0 and spans[2 * (first + whole) - 2] + spans[2 * (first + whole) - 1] > limit:
        whole -= 1
    begin, end = min(begin, whole), min(end, whole)
    place, steps = at - origin * channels, (channels, stride, line)
    for some in ((0, begin, 0), (begin, end, taps), (end, whole, 0)):
        run, there = (first + some[0], some[1] - some[0]), to + some[0] * channels
        blend_fours(s, place, steps, table, run, some[2], out, there)
    rest = (first + whole, count - whole, origin)
    for y in range(ROWS):
        there = to + y * line + whole * channels
        blend_pixels(s, at + y * stride, channels, table, rest, out, there)


@kernel
def blend_columns(
    s: Any, source: Any, rows: int, channels: int, table: Any, part: Any, out: Any, to: int
) -> None:
    """Write the weighted sums of adjacent pixels, for some pixels of every row.

    Args:
        s: flat float32 source.
        source: (index of the pixel of tap `origin` in the first row, values from row to row,
            pixels of a row from `origin` on).
        rows: number of rows.
        channels: values of a pixel.
        table: see above.
        part: (first output pixel, number of output pixels, origin, the result of `alike`).
        out: flat float32, rows without gaps.
        to: first index written.
    """
    at, stride, width = source
    line = part[1] * channels
    if rows < ROWS:
        some = (part[0], part[1], part[2])
        for y in range(rows):
            blend_pixels(s, at + y * stride, channels, table, some, out, to + y * line)
        return
    for group in range(0, rows, ROWS):
        y = min(group, rows - ROWS)  # the last group overlaps the previous one
        source_y = (at + y * stride, stride, width)
        blend_group(s, source_y, channels, table, part, out, to + y * line)
