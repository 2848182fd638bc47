"""Single pixels of three values, moved and mixed as if they had four.

Compiled, one instruction handles a pixel (`simd.pixels`). The fourth value written is
the next pixel's first: a caller writes pixels in ascending order, and handles the last pixel of an
array separately. Arrays are flat uint8, uint16 or float32 (compiled code also accepts int32, since
masks reach it, but masks are never mixed); places count values.

Levels are mixed in integers; floats in float64, where the weights and the products are exact, in
the order that is written here, and rounded to float32 once.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel

WEIGHT: Final = 2048
"""One, as a weight along an axis."""
SHIFT: Final = 22
"""Fraction bits of a product of two weights."""
ROUND: Final = 1 << (SHIFT - 1)
PART: Final = 2.0**-SHIFT
"""Unit of a product of two weights."""


@kernel(twin="stoker.ops.kernels.simd.pixels:copy4")
def copy4(src: Any, start: Any, dst: Any, to: Any) -> None:
    """Copy the four values at `start` to `to`."""
    dst[to : to + 4] = src[start : start + 4]


@kernel(twin="stoker.ops.kernels.simd.pixels:mix4")
def mix4(src: Any, above: int, below: int, fx: int, fy: int, dst: Any, to: int) -> None:
    """Write four values between two pixels of one row and two of another, as `mixed` does.

    Args:
        src: flat; eight values are read at each of the two places.
        above: place of the left pixel of the upper row; its neighbor is three bytes further.
        below: the same of the lower row.
        fx: weight of the right pixels, from 0 to 2047, in units of 2**-11.
        fy: weight of the lower row.
        dst: flat, of the same dtype.
        to: first index written.
    """
    d = fx * fy
    c, b = fy * WEIGHT - d, fx * WEIGHT - d
    weights = (WEIGHT * WEIGHT - b - c - d, b, c, d)
    for n in range(4):
        places = (above + n, above + n + 3, below + n, below + n + 3)
        mix1(src, places, weights, dst, to + n)


@kernel(twin="stoker.ops.kernels.simd.pixels:mix1")
def mix1(src: Any, places: Any, weights: Any, dst: Any, to: Any) -> None:
    """Write the weighted mean of four values; levels are rounded, halves up.

    Args:
        src: flat.
        places: places of the four values.
        weights: their weights, not negative, with sum 2**22.
        dst: flat, of the same dtype.
        to: index written.
    """
    a, b, c, d = (src[place] for place in places)
    if src.dtype == np.float32:
        w = [float(weight) * PART for weight in weights]
        total = float(a) * w[0] + float(b) * w[1] + float(c) * w[2] + float(d) * w[3]
        dst[to] = np.float32(total)
    else:
        total = int(a) * weights[0] + int(b) * weights[1] + int(c) * weights[2]
        dst[to] = (total + int(d) * weights[3] + ROUND) >> SHIFT


@kernel
def pick3(image: Any, start: Any, result: Any, to: Any) -> None:
    """Write a pixel of three values; the value after it is overwritten, unless it is the last."""
    if start + 4 <= image.size and to + 4 <= result.size:
        copy4(image, start, result, to)
    else:
        for n in range(np.uint64(3)):
            result[np.uint64(to) + n] = image[np.uint64(start) + n]
