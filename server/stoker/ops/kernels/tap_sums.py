"""Blends: weighted sums of bytes, the inner loops of a filtered resize.

`blend_rows` makes output rows from rows, `blend_columns` output pixels from pixels of a row. Both
run over quads of taps, whose weights are split into halves of 16 bits (`kernels.tap_tables`): most
processors multiply and add pairs of int16 faster than they multiply whole weights. Compiled, all
sums stay in registers (`simd.tap_rows` and `tap_columns`); rows and groups of rows
that are smaller than a block of registers are summed level by level. In both cases a sum is an
int32, rounded and clipped to uint8.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.runs import copy_run
from stoker.ops.kernels.tap_tables import QUAD
from stoker.ops.kernels.taps import PRECISION

HALF: Final = np.int32(1 << (PRECISION - 1))
SHIFT: Final = np.int32(PRECISION)
SIXTEEN: Final = np.int32(16)
LOW: Final = np.int32(0)
HIGH: Final = np.int32(255)


@kernel
def weight_at(words: Any, k: int) -> Any:
    """Return a weight of split quads."""
    place = k // QUAD * QUAD + k % QUAD // 2
    low, high = words[place], words[place + 2]
    if k % 2 == 0:
        low, high = np.int32(low << SIXTEEN), np.int32(high << SIXTEEN)
    return np.int32(np.int32(low >> SIXTEEN) + np.int32(np.int32(high >> SIXTEEN) << SIXTEEN))


@kernel
def blend_one(src: Any, start: int, step: int, last: int, words: Any, k: int, count: int) -> Any:
    """Blend one level.

    Args:
        src: flat uint8.
        start: index of the first tap.
        step: bytes from tap to tap.
        last: number of the last existing tap; later ones have weight 0.
        words: split weights.
        k: number of the first weight.
        count: taps.
    """
    total, place = HALF, start
    for tap in range(count):
        level = np.int32(src[place])
        total = np.int32(total + np.int32(weight_at(words, k + tap) * level))
        place += step if tap < last else 0
    return np.uint8(min(max(np.int32(total >> SHIFT), LOW), HIGH))


@kernel
def blend_rows(src: Any, source: Any, table: Any, dst: Any, line: int, places: Any) -> None:
    """Blend all output rows.

    Args:
        src: flat uint8 image.
        source: (index of the source's first byte, bytes from row to row, number of the last row);
            taps beyond that row have weight 0.
        table: (first, split weights, count) of the axis.
        dst: flat uint8, rows of `line` bytes.
        line: bytes of a row.
        places: at least `count` int64, contents undefined.
    """
    first, words, count = table
    at, stride, last = source
    for y in range(len(first)):
        begun, most, to = at + first[y] * stride, last - first[y], y * line
        if line < 16:
            for x in range(line):
                dst[to + x] = blend_one(src, begun + x, stride, most, words, y * count, count)
            continue
        place = begun
        for tap in range(count):
            places[tap] = place
            place += stride if tap < most else 0
        if line < 64:
            blend_short_row(src, places, words, y * count, count, dst, to, line)
        else:
            blend_row(src, places, words, y * count, count, dst, to, line)


@kernel
def blend_columns(
    src: Any, source: Any, rows: int, channels: int, dst: Any, table: Any, spare: Any
) -> None:
    """Blend all output pixels of rows.

    Args:
        src: flat uint8 image.
        source: (index of the source's first byte, bytes from row to row, width in pixels); taps
            beyond the width have weight 0.
        rows: number of rows.
        channels: bytes of a pixel.
        dst: flat uint8, rows without gaps.
        table: (first, split weights, count) of the axis.
        spare: at least `16 * (width + count + 4)` uint8, contents undefined.
    """
    at, stride, width = source
    first, words, count = table
    wide, tall = len(first), rows_at_once(channels)
    line = wide * channels
    if wide < QUAD or rows < tall or channels > QUAD:
        for y in range(rows):
            for x in range(line):
                pixel, c = x // channels, x % channels
                start = at + y * stride + first[pixel] * channels + c
                most, k = width - 1 - first[pixel], pixel * count
                dst[y * line + x] = blend_one(src, start, channels, most, words, k, count)
        return
    # Bytes of a row that are read: weights of 0 read beyond it, and three channels read four.
    reach = (first[wide - 1] + count) * channels + 4
    for group in range(0, rows, tall):
        y = min(group, rows - tall)  # the last group overlaps the previous one
        begun, to = at + y * stride, y * line
        if begun + (tall - 1) * stride + reach <= len(src):
            blend_group(src, (begun, stride), channels, dst, to, table)
            continue
        for n in range(tall):
            copy_run(src, begun + n * stride, spare, n * reach, width * channels)
        blend_group(spare, (np.int64(0), np.int64(reach)), channels, dst, to, table)


@kernel
def rows_at_once(channels: int) -> int:
    """Return how many rows a group has, so that four pixels of them fill registers."""
    if channels < 3:
        return 16 if channels == 1 else 8
    return 4


@kernel
def blend_group(src: Any, source: Any, channels: int, dst: Any, to: int, table: Any) -> None:
    """Blend all output pixels of a group of rows, of at least four pixels.

    Args:
        src: flat uint8.
        source: (index of the first byte, bytes from row to row).
        channels: bytes of a pixel.
        dst: flat uint8, rows without gaps.
        to: index of the first byte written.
        table: (first, split weights, count) of the axis.
    """
    if channels == 3:
        blend_pixels3(src, source, table, dst, to)
    elif channels == 1:
        blend_pixels1(src, source, table, dst, to)
    elif channels == 4:
        blend_pixels4(src, source, table, dst, to)
    else:
        blend_pixels2(src, source, table, dst, to)


@kernel(twin="stoker.ops.kernels.simd.tap_rows:blend_row")
def blend_row(
    src: Any, places: Any, words: Any, k: int, count: int, dst: Any, to: int, line: int
) -> None:
    """Blend a row of at least 64 bytes.

    Args:
        src: flat uint8.
        places: index of the first byte of the row of every tap.
        words: split weights.
        k: number of the first weight.
        count: taps, in whole quads.
        dst: flat uint8.
        to: index of the first byte written.
        line: bytes of the row.
    """
    plain_run(src, places[:count], (words, k, count), dst[to : to + line])


@kernel(twin="stoker.ops.kernels.simd.tap_rows:blend_short_row")
def blend_short_row(
    src: Any, places: Any, words: Any, k: int, count: int, dst: Any, to: int, line: int
) -> None:
    """Blend a row of at least 16 bytes; see `blend_row`."""
    plain_run(src, places[:count], (words, k, count), dst[to : to + line])


@kernel(twin="stoker.ops.kernels.simd.tap_columns:blend_pixels1")
def blend_pixels1(src: Any, source: Any, table: Any, dst: Any, to: int) -> None:
    """Blend all pixels of 16 rows of one channel; see `blend_group`."""
    plain_group(src, source, table, dst[to:], 1)


@kernel(twin="stoker.ops.kernels.simd.tap_columns:blend_pixels2")
def blend_pixels2(src: Any, source: Any, table: Any, dst: Any, to: int) -> None:
    """Blend all pixels of 8 rows of two channels; see `blend_group`."""
    plain_group(src, source, table, dst[to:], 2)


@kernel(twin="stoker.ops.kernels.simd.tap_columns:blend_pixels3")
def blend_pixels3(src: Any, source: Any, table: Any, dst: Any, to: int) -> None:
    """Blend all pixels of 4 rows of three channels; see `blend_group`.

    Four bytes beyond the last tap are read.
    """
    plain_group(src, source, table, dst[to:], 3)


@kernel(twin="stoker.ops.kernels.simd.tap_columns:blend_pixels4")
def blend_pixels4(src: Any, source: Any, table: Any, dst: Any, to: int) -> None:
    """Blend all pixels of 4 rows of four channels; see `blend_group`."""
    plain_group(src, source, table, dst[to:], 4)


def plain_run(src: np.ndarray, starts: np.ndarray, taps: Any, out: np.ndarray) -> None:
    """Blend runs of bytes with NumPy; `taps` are (words, number of the first weight, count)."""
    words, k, count = taps
    halves = words[k : k + count].view(np.int16).reshape(-1, 2, QUAD).astype(np.int64)
    weights = (halves[:, 0] + (halves[:, 1] << 16)).ravel()
    levels = src[starts[:, None] + np.arange(out.size)].astype(np.int64)
    total = (weights[:, None] * levels).sum(0) + int(HALF)
    out[...] = np.clip(total >> PRECISION, 0, 255)


def plain_group(src: np.ndarray, source: Any, table: Any, out: np.ndarray, channels: int) -> None:
    """Blend all pixels of a group of rows with NumPy; see `blend_group`."""
    first, words, count = table
    start, stride = source
    for row in range(rows_at_once(channels)):
        for x in range(len(first)):
            to = (row * len(first) + x) * channels
            begun = start + row * stride + int(first[x]) * channels
            taps = (words, x * count, count)
            plain_run(src, begun + channels * np.arange(count), taps, out[to : to + channels])
