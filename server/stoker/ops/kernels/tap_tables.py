"""Tap tables for images of levels: those of `stoker.ops.kernels.taps`, with split weights.

Compiled, four outputs are computed at once (`stoker.ops.kernels.simd.tap_tables`), each by the same
operations in the same order as in the plain form. The tables of the Lanczos and area filters are
filled output by output.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.taps import CUBIC, fill_taps, support_of

QUAD: Final = 4
"""Taps of a quad; the weights of a table come in whole quads."""
LOWER: Final = 0xFFFF
CARRY: Final = 0x8000


@kernel
def fill_table(
    size_in: int,
    span: Any,
    size_out: int,
    filter_id: int,
    count: int,
    first: Any,
    words: Any,
    row: Any,
) -> None:
    """Write the table of one axis.

    Args:
        size_in: source pixels.
        span: as for `stoker.ops.kernels.taps.fill_taps`.
        size_out: output pixels.
        filter_id: number of the filter, as in `stoker.ops.kernels.taps`.
        count: taps per output pixel, from `stoker.ops.kernels.taps.tap_count`.
        first: `(size_out,) int32`, index of the first tap.
        words: `(size_out * count,) int32`, split weights; see `split_weights`.
        row: `(count,) float64`, contents undefined.
    """
    if filter_id > CUBIC:
        fill_taps(size_in, span, size_out, filter_id, count, first, words, row)
        split_quads(words)
        return
    start, length = span
    scale = length / size_out
    axis = (size_in, size_out, np.int64(filter_id))
    numbers = (scale, support_of(filter_id, scale), 1.0 / max(scale, 1.0), start, length)
    fill_split(axis, numbers, count, first, words, row)


@kernel
def split_quads(words: Any) -> None:
    """Split the weights of whole quads, in place; the result is that of `split_weights`."""
    for k in range(0, len(words), QUAD):
        a, b = np.int64(words[k]), np.int64(words[k + 1])
        c, d = np.int64(words[k + 2]), np.int64(words[k + 3])
        words[k], words[k + 1] = pair(a, b), pair(c, d)
        words[k + 2] = pair((a + CARRY) >> 16, (b + CARRY) >> 16)
        words[k + 3] = pair((c + CARRY) >> 16, (d + CARRY) >> 16)


@kernel
def pair(low: Any, high: Any) -> Any:
    """Return the lower 16 bits of two integers in one int32."""
    return np.int32(((((high & LOWER) ^ CARRY) - CARRY) << 16) | (low & LOWER))


@kernel(twin="stoker.ops.kernels.simd.tap_tables:fill_split")
def fill_split(axis: Any, numbers: Any, count: int, first: Any, words: Any, row: Any) -> None:
    """Write the table of one axis.

    Args:
        axis: (source pixels, output pixels, `CUBIC` or `TRIANGLE`).
        numbers: (source pixels per output pixel, the filter's support, its argument per pixel,
            start and length of the span).
        count: as for `fill_table`.
        first: as for `fill_table`.
        words: as for `fill_table`.
        row: as for `fill_table`.
    """
    size_in, size_out, filter_id = axis
    fill_taps(size_in, numbers[3:], size_out, filter_id, count, first, words, row)
    split_weights(words)


def split_weights(weights: np.ndarray) -> None:
    """Split the weights of whole quads, in place.

    A weight w is high * 2**16 + low, both in int16. For the weights a, b, c, d the four words hold,
    the first of each in their lower half: low of a and b, low of c and d, high of a and b, high of
    c and d.
    """
    quads = weights.reshape(-1, QUAD).astype(np.int64)
    high = (quads + CARRY) >> 16
    for n, half in ((0, quads), (2, high)):
        words = (half[:, ::2] & LOWER) | (half[:, 1::2] << 16)
        weights.reshape(-1, QUAD)[:, n : n + 2] = words.astype(np.int32)
