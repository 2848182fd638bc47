"""Inverse DCTs that make 4 by 4, 2 by 2 or one sample of a block of 64 coefficients.

They are libjpeg's (jidctred.c): columns, then rows, with constants of 13 fraction bits and two more
bits between the passes. Some coefficients have no part in them: those of row or column 4 in 4 by 4
samples, of 2, 4 and 6 in 2 by 2. As in libjpeg-turbo's vector code, products of coefficients and
quantization have 16 bits and wrap, sums have 32, and results of each pass are clipped to 16.
"""

import functools
from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.decoding.transform import joined, transform_blocks
from stoker.jit import kernel

USED: Final = {4: (0, 1, 2, 3, 5, 6, 7), 2: (0, 1, 3, 5, 7)}
"""By samples of a side: rows and columns whose coefficients have a part."""
EVEN: Final = {4: [(2, 6, 15137, -6270)], 2: []}
"""(input, input, factor, factor): factors in units of 2**-13."""
ODD: Final = {
    4: [
        [(1, 3, 20995, 7373), (5, 7, -4926, -4176)],  # of outputs 0 and 3
        [(1, 3, 8697, -17799), (5, 7, 11893, -1730)],  # of outputs 1 and 2
    ],
    2: [[(1, 3, 29692, -10426), (5, 7, 6967, -5906)]],
}
SHIFTS: Final = {4: (12, 19), 2: (13, 20)}
"""Bits that are cut off after columns and after rows."""
FIRST_BITS: Final = {4: 14, 2: 15}
"""Input 0 is multiplied by 2 to this power."""


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.reduced:transform_4")
def transform_4(
    coefficients: Any, jobs: Any, at: int, factors: Any, planes: Any, stride: int, scratch: Any
) -> None:
    """Make 4 by 4 samples of each of 16 blocks; arguments as of `transform.transform_full`."""
    _plain(4, coefficients, jobs, at, factors, planes, stride)


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.reduced:sparse_4")
def sparse_4(
    coefficients: Any, jobs: Any, at: int, factors: Any, planes: Any, stride: int, scratch: Any
) -> None:
    """Do so for blocks whose coefficients are zero from the eleventh on."""
    _plain(4, coefficients, jobs, at, factors, planes, stride)


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.reduced:transform_2")
def transform_2(
    coefficients: Any, jobs: Any, at: int, factors: Any, planes: Any, stride: int, scratch: Any
) -> None:
    """Make 2 by 2 samples of each of 16 blocks; arguments as of `transform.transform_full`."""
    _plain(2, coefficients, jobs, at, factors, planes, stride)


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.reduced:sparse_2")
def sparse_2(
    coefficients: Any, jobs: Any, at: int, factors: Any, planes: Any, stride: int, scratch: Any
) -> None:
    """Do so for blocks whose coefficients are zero from the eleventh on."""
    _plain(2, coefficients, jobs, at, factors, planes, stride)


@kernel
def only_levels(
    coefficients: Any, jobs: Any, begin: Any, end: Any, factors: Any, planes: Any
) -> None:
    """Make one sample of each block of a list, of its DC alone.

    Args:
        coefficients: flat int16.
        jobs: flat int64: for each block its first coefficient, and the place of its level.
        begin: the first number in `jobs`.
        end: one more than the last one.
        factors: flat int16; the quantization of DC comes first.
        planes: flat uint8, receives the levels.
    """
    factor = np.int64(factors[0])
    for n in range(np.uint64((end - begin) // 2)):
        at = np.uint64(begin) + np.uint64(2) * n
        value = (np.int64(coefficients[np.uint64(jobs[at])]) * factor + 4) >> 3
        value = ((value + 512) & 1023) - 512  # as libjpeg's table of levels has it
        level: Any = min(max(value + 128, 0), 255)
        planes[np.uint64(jobs[at + np.uint64(1)])] = np.uint8(level)


def _plain(side: int, *arguments: Any) -> None:
    transform_blocks(functools.partial(_one, side), SHIFTS[side], *arguments)


def _one(side: int, x: np.ndarray, shift: int) -> np.ndarray:
    """Transform columns: (8, n) int16 to (side, n) int16, in units of 2**-shift and clipped."""

    def total(terms: list[tuple[int, int, int, int]]) -> Any:
        wide = x.astype(np.int32)
        return sum((wide[a] * f + wide[b] * g for a, b, f, g in terms), np.int32(0))

    first = x[0].astype(np.int32) << FIRST_BITS[side]
    even, odd = total(EVEN[side]), [total(terms) for terms in ODD[side]]
    return joined([first + even, first - even][: side // 2], odd, shift)
