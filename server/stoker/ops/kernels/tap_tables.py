"""Tap tables for images of levels: those of `stoker.ops.kernels.taps`, with split weights.

Compiled, four outputs are computed at once (`stoker.ops.kernels.simd.tap_tables`), each by the same
operations in the same order as in the plain form.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.taps import fill_taps

QUAD: Final = 4
"""Taps of a quad; the weights of a table come in whole quads."""
LOWER: Final = 0xFFFF
CARRY: Final = 0x8000


@kernel
def fill_table(
    size_in: int, size_out: int, bicubic: int, count: int, first: Any, words: Any, row: Any
) -> None:
    """Write the table of one axis.

    Args:
        size_in: source pixels.
        size_out: output pixels.
        bicubic: 1 for the cubic filter, 0 for the triangle.
        count: taps per output pixel, from `stoker.ops.kernels.taps.tap_count`.
        first: `(size_out,) int32`, index of the first tap.
        words: `(size_out * count,) int32`, split weights; see `split_weights`.
        row: `(count,) float64`, contents undefined.
    """
    scale = size_in / size_out
    stretch = max(scale, 1.0)
    support = (2.0 if bicubic else 1.0) * stretch
    axis = (size_in, size_out, np.int64(bicubic))
    fill_split(axis, (scale, support, 1.0 / stretch), count, first, words, row)


@kernel(twin="stoker.ops.kernels.simd.tap_tables:fill_split")
def fill_split(axis: Any, numbers: Any, count: int, first: Any, words: Any, row: Any) -> None:
    """Write the table of one axis.

    Args:
        axis: (source pixels, output pixels, 1 for the cubic filter and 0 for the triangle).
        numbers: (source pixels per output pixel, the filter's support, its argument per pixel).
        count: as for `fill_table`.
        first: as for `fill_table`.
        words: as for `fill_table`.
        row: as for `fill_table`.
    """
    size_in, size_out, bicubic = axis
    fill_taps(size_in, size_out, bicubic, count, first, words, row)
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
