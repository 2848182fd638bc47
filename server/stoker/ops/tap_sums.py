"""Blends: weighted sums of byte runs, the inner loops of a filtered resize.

`blend_rows` makes output rows of runs of any length; `blend_lanes` makes all output pixels of a
tile, runs of LANES bytes. Up to 4 taps are summed in registers; more are summed 4 at a time in an
int32 buffer (the count is then a multiple of 4). int32 throughout: numba would widen to int64 and
lose half of the lanes, so every product and sum is cast back.
"""

from typing import Any, Final

import numpy as np

from stoker.ops.taps import PRECISION
from stoker.rng.jit import kernel

LANES: Final = 48
"""Bytes of one pixel of a tile; divisible by 4 times every channel count from 1 to 4."""

N: Final = np.uint64(LANES)
N2: Final = np.uint64(2 * LANES)
N3: Final = np.uint64(3 * LANES)
N4: Final = np.uint64(4 * LANES)
HALF: Final = np.int32(1 << (PRECISION - 1))
SHIFT: Final = np.int32(PRECISION)
LOW: Final = np.int32(0)
HIGH: Final = np.int32(255)


@kernel
def clip8(total: Any) -> Any:
    """Round a sum that has the half added already to a grey level."""
    return np.uint8(min(max(np.int32(total >> SHIFT), LOW), HIGH))


@kernel
def times(weight: Any, level: Any) -> Any:
    """Multiply in int32."""
    return np.int32(weight * np.int32(level))


@kernel
def blend_lanes(tile: Any, out: Any, table: Any, sums: Any) -> None:
    """Blend all output pixels of a tile.

    Args:
        tile: flat uint8, LANES bytes for each source pixel and for `count` pixels beyond.
        out: `(size_out * LANES,) uint8`.
        table: (first, weights, count) of the axis.
        sums: at least LANES int32.
    """
    first, weights, count = table
    if count == 2:
        lanes2(tile, out, first, weights)
    elif count == 3:
        lanes3(tile, out, first, weights)
    elif count == 4:
        lanes4(tile, out, first, weights)
    else:
        lanes_many(tile, out, first, weights, count, sums)


@kernel
def lanes2(t: Any, out: Any, first: Any, weights: Any) -> None:
    """Two taps."""
    for x in range(len(first)):
        a, at = np.uint64(first[x]) * N, np.uint64(x) * N
        w0, w1 = weights[2 * x], weights[2 * x + 1]
        for j in range(N):
            out[at + j] = clip8(np.int32(HALF + times(w0, t[a + j]) + times(w1, t[a + N + j])))


@kernel
def lanes3(t: Any, out: Any, first: Any, weights: Any) -> None:
    """Three taps."""
    for x in range(len(first)):
        a, at = np.uint64(first[x]) * N, np.uint64(x) * N
        w0, w1, w2 = weights[3 * x], weights[3 * x + 1], weights[3 * x + 2]
        for j in range(N):
            total = HALF + times(w0, t[a + j]) + times(w1, t[a + N + j]) + times(w2, t[a + N2 + j])
            out[at + j] = clip8(np.int32(total))


@kernel
def lanes4(t: Any, out: Any, first: Any, weights: Any) -> None:
    """Four taps."""
    for x in range(len(first)):
        a, at = np.uint64(first[x]) * N, np.uint64(x) * N
        w0, w1, w2, w3 = weights[4 * x], weights[4 * x + 1], weights[4 * x + 2], weights[4 * x + 3]
        for j in range(N):
            total = HALF + times(w0, t[a + j]) + times(w1, t[a + N + j])
            total += times(w2, t[a + N2 + j]) + times(w3, t[a + N3 + j])
            out[at + j] = clip8(np.int32(total))


@kernel
def lanes_many(t: Any, out: Any, first: Any, weights: Any, count: int, sums: Any) -> None:
    """Any multiple of four taps from 8: the first four begin the sums, the last four end them."""
    for x in range(len(first)):
        a, at = np.uint64(first[x]) * N, np.uint64(x) * N
        k, end = x * count, (x + 1) * count - 4
        w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        for j in range(N):
            total = HALF + times(w0, t[a + j]) + times(w1, t[a + N + j])
            total += times(w2, t[a + N2 + j]) + times(w3, t[a + N3 + j])
            sums[j] = np.int32(total)
        a += N4
        for i in range(k + 4, end, 4):
            w0, w1, w2, w3 = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
            for j in range(N):
                total = sums[j] + times(w0, t[a + j]) + times(w1, t[a + N + j])
                total += times(w2, t[a + N2 + j]) + times(w3, t[a + N3 + j])
                sums[j] = np.int32(total)
            a += N4
        w0, w1, w2, w3 = weights[end], weights[end + 1], weights[end + 2], weights[end + 3]
        for j in range(N):
            total = sums[j] + times(w0, t[a + j]) + times(w1, t[a + N + j])
            total += times(w2, t[a + N2 + j]) + times(w3, t[a + N3 + j])
            out[at + j] = clip8(np.int32(total))


@kernel
def blend_rows(src: Any, source: Any, table: Any, dst: Any, line: int, sums: Any) -> None:
    """Blend all output rows. The loop over rows is in the callees: a call costs as much as a row.

    Args:
        src: flat uint8 image.
        source: (index of the source's first byte, bytes from row to row, number of the last row);
            taps beyond that row have weight 0.
        table: (first, weights, count) of the axis.
        dst: flat uint8, rows of `line` bytes.
        line: bytes of a row.
        sums: at least `line` int32.
    """
    first, weights, count = table
    if count == 2:
        rows2(src, source, first, weights, dst, line)
    elif count == 3:
        rows3(src, source, first, weights, dst, line)
    elif count == 4:
        rows4(src, source, first, weights, dst, line)
    else:
        rows_many(src, source, table, dst, line, sums)


@kernel
def row_at(source: Any, row: Any) -> Any:
    """Return the index of the first byte of a source row."""
    at, stride, last = source
    return np.uint64(at + min(row, last) * stride)


@kernel
def rows2(s: Any, source: Any, first: Any, weights: Any, out: Any, line: int) -> None:
    """Two taps."""
    n = np.uint64(line)
    for y in range(len(first)):
        a, b = row_at(source, first[y]), row_at(source, first[y] + 1)
        k, to = 2 * y, np.uint64(y * line)
        w0, w1 = weights[k], weights[k + 1]
        for j in range(n):
            out[to + j] = clip8(np.int32(HALF + times(w0, s[a + j]) + times(w1, s[b + j])))


@kernel
def rows3(s: Any, source: Any, first: Any, weights: Any, out: Any, line: int) -> None:
    """Three taps."""
    n = np.uint64(line)
    for y in range(len(first)):
        a, b = row_at(source, first[y]), row_at(source, first[y] + 1)
        c = row_at(source, first[y] + 2)
        k, to = 3 * y, np.uint64(y * line)
        w0, w1, w2 = weights[k], weights[k + 1], weights[k + 2]
        for j in range(n):
            total = HALF + times(w0, s[a + j]) + times(w1, s[b + j]) + times(w2, s[c + j])
            out[to + j] = clip8(np.int32(total))


@kernel
def rows4(s: Any, source: Any, first: Any, weights: Any, out: Any, line: int) -> None:
    """Four taps."""
    n = np.uint64(line)
    for y in range(len(first)):
        a, b = row_at(source, first[y]), row_at(source, first[y] + 1)
        c, d = row_at(source, first[y] + 2), row_at(source, first[y] + 3)
        k, to = 4 * y, np.uint64(y * line)
        w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        for j in range(n):
            total = HALF + times(w0, s[a + j]) + times(w1, s[b + j])
            total += times(w2, s[c + j]) + times(w3, s[d + j])
            out[to + j] = clip8(np.int32(total))


@kernel
def rows_many(s: Any, source: Any, table: Any, out: Any, line: int, sums: Any) -> None:
    """Any multiple of four taps from 8: the first four begin the sums, the last four end them."""
    first, weights, count = table
    n = np.uint64(line)
    for y in range(len(first)):
        to = np.uint64(y * line)
        for k in range(0, count, 4):
            a, b = row_at(source, first[y] + k), row_at(source, first[y] + k + 1)
            c, d = row_at(source, first[y] + k + 2), row_at(source, first[y] + k + 3)
            i = y * count + k
            w0, w1, w2, w3 = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
            if k == 0:
                for j in range(n):
                    total = HALF + times(w0, s[a + j]) + times(w1, s[b + j])
                    total += times(w2, s[c + j]) + times(w3, s[d + j])
                    sums[j] = np.int32(total)
            elif k < count - 4:
                for j in range(n):
                    total = sums[j] + times(w0, s[a + j]) + times(w1, s[b + j])
                    total += times(w2, s[c + j]) + times(w3, s[d + j])
                    sums[j] = np.int32(total)
            else:
                for j in range(n):
                    total = sums[j] + times(w0, s[a + j]) + times(w1, s[b + j])
                    total += times(w2, s[c + j]) + times(w3, s[d + j])
                    out[to + j] = clip8(np.int32(total))
