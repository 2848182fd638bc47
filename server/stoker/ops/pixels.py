"""Single pixels of three bytes, moved and mixed as if they had four.

Compiled, one instruction handles a pixel (`stoker.ops.machine.pixels`). The fourth byte written is
the next pixel's first: a caller writes pixels in ascending order, and the last pixel of an array by
itself. Arrays are flat uint8 (compiled code accepts other integers, since masks pass by, but no
mask is mixed); places count bytes.
"""

from typing import Any, Final

import numpy as np

from stoker.rng.jit import kernel

WEIGHT: Final = 2048
"""One, as a weight along an axis."""
SHIFT: Final = 22
"""Fraction bits of a product of two weights."""
ROUND: Final = 1 << (SHIFT - 1)


@kernel(twin="stoker.ops.machine.pixels:copy4")
def copy4(src: Any, start: Any, dst: Any, to: Any) -> None:
    """Copy the four bytes at `start` to `to`."""
    dst[to : to + 4] = src[start : start + 4]


@kernel(twin="stoker.ops.machine.pixels:mix4")
def mix4(src: Any, above: int, below: int, fx: int, fy: int, dst: Any, to: int) -> None:
    """Write four levels between two pixels of one row and two of another, rounded, halves up.

    Args:
        src: flat uint8; eight bytes are read at each of the two places.
        above: place of the left pixel of the upper row; its neighbour is three bytes further.
        below: the same of the lower row.
        fx: weight of the right pixels, from 0 to 2047, in units of 2**-11.
        fy: weight of the lower row.
        dst: flat uint8.
        to: first index written.
    """
    for n in range(4):
        upper = int(src[above + n]) * (WEIGHT - fx) + int(src[above + n + 3]) * fx
        lower = int(src[below + n]) * (WEIGHT - fx) + int(src[below + n + 3]) * fx
        dst[to + n] = (upper * (WEIGHT - fy) + lower * fy + ROUND) >> SHIFT


@kernel
def pick3(image: Any, start: Any, result: Any, to: Any) -> None:
    """Write a pixel of three values; the value after it is overwritten, unless it is the last."""
    if start + 4 <= image.size and to + 4 <= result.size:
        copy4(image, start, result, to)
    else:
        for n in range(np.uint64(3)):
            result[np.uint64(to) + n] = image[np.uint64(start) + n]
