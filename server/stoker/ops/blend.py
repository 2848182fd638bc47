"""Blends: weighted sums of byte runs, the inner loops of a filtered resize.

`blend_rows` makes one output row of runs of any length; `blend_lanes` makes all output pixels of a
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
def blend_rows(src: Any, at: int, stride: int, last: int, taps: Any, out: Any, sums: Any) -> None:
    """Blend one output row.

    Args:
        src: flat uint8 image.
        at: index of the first byte of the source's first row.
        stride: bytes from row to row.
        last: number of the last row there is; taps beyond it have weight 0.
        taps: (first row, `(count,)` weights).
        out: the output row, flat uint8.
        sums: int32, as long as the row.
    """
    first, w = taps
    a = np.uint64(at + first * stride)
    b = np.uint64(at + min(first + 1, last) * stride)
    c = np.uint64(at + min(first + 2, last) * stride)
    d = np.uint64(at + min(first + 3, last) * stride)
    if len(w) == 2:
        rows2(src, a, b, w, out)
    elif len(w) == 3:
        rows3(src, a, b, c, w, out)
    elif len(w) == 4:
        rows4(src, (a, b, c, d), w, out)
    else:
        rows_many(src, at, stride, last, taps, out, sums)


@kernel
def rows2(s: Any, a: Any, b: Any, w: Any, out: Any) -> None:
    """Two taps."""
    w0, w1 = w[0], w[1]
    for j in range(np.uint64(len(out))):
        out[j] = clip8(np.int32(HALF + times(w0, s[a + j]) + times(w1, s[b + j])))


@kernel
def rows3(s: Any, a: Any, b: Any, c: Any, w: Any, out: Any) -> None:
    """Three taps."""
    w0, w1, w2 = w[0], w[1], w[2]
    for j in range(np.uint64(len(out))):
        total = HALF + times(w0, s[a + j]) + times(w1, s[b + j]) + times(w2, s[c + j])
        out[j] = clip8(np.int32(total))


@kernel
def rows4(s: Any, rows: Any, w: Any, out: Any) -> None:
    """Four taps."""
    a, b, c, d = rows
    w0, w1, w2, w3 = w[0], w[1], w[2], w[3]
    for j in range(np.uint64(len(out))):
        total = HALF + times(w0, s[a + j]) + times(w1, s[b + j])
        total += times(w2, s[c + j]) + times(w3, s[d + j])
        out[j] = clip8(np.int32(total))


@kernel
def rows_many(s: Any, at: int, stride: int, last: int, taps: Any, out: Any, sums: Any) -> None:
    """Any multiple of four taps from 8: the first four begin the sums, the last four end them."""
    first, w = taps
    n, end = np.uint64(len(out)), len(w) - 4
    for k in range(0, len(w), 4):
        a = np.uint64(at + min(first + k, last) * stride)
        b = np.uint64(at + min(first + k + 1, last) * stride)
        c = np.uint64(at + min(first + k + 2, last) * stride)
        d = np.uint64(at + min(first + k + 3, last) * stride)
        if k == 0:
            begin4(s, (a, b, c, d), w[:4], sums, n)
        elif k < end:
            add4(s, (a, b, c, d), w[k : k + 4], sums, n)
        else:
            end4(s, (a, b, c, d), w[end:], sums, out, n)


@kernel
def begin4(s: Any, rows: Any, w: Any, sums: Any, n: Any) -> None:
    """Begin sums with the half and four taps."""
    a, b, c, d = rows
    w0, w1, w2, w3 = w[0], w[1], w[2], w[3]
    for j in range(n):
        total = HALF + times(w0, s[a + j]) + times(w1, s[b + j])
        total += times(w2, s[c + j]) + times(w3, s[d + j])
        sums[j] = np.int32(total)


@kernel
def add4(s: Any, rows: Any, w: Any, sums: Any, n: Any) -> None:
    """Add four taps to sums."""
    a, b, c, d = rows
    w0, w1, w2, w3 = w[0], w[1], w[2], w[3]
    for j in range(n):
        total = sums[j] + times(w0, s[a + j]) + times(w1, s[b + j])
        total += times(w2, s[c + j]) + times(w3, s[d + j])
        sums[j] = np.int32(total)


@kernel
def end4(s: Any, rows: Any, w: Any, sums: Any, out: Any, n: Any) -> None:
    """Add the last four taps to sums and write the levels."""
    a, b, c, d = rows
    w0, w1, w2, w3 = w[0], w[1], w[2], w[3]
    for j in range(n):
        total = sums[j] + times(w0, s[a + j]) + times(w1, s[b + j])
        total += times(w2, s[c + j]) + times(w3, s[d + j])
        out[j] = clip8(np.int32(total))
