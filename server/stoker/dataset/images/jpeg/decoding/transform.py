"""The inverse DCT: coefficients to levels, 16 blocks at once.

The arithmetic is that of libjpeg's islow DCT, after Loeffler, Ligtenberg and Moschytz (ICASSP
1989): columns, then rows, with constants of 13 fraction bits and two more bits between the passes.
As in libjpeg-turbo's vector code, products of coefficients and quantization and sums of two inputs
have 16 bits and wrap, other sums have 32, and results of each pass are clipped to 16.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.decoding.sizes import LANES
from stoker.jit import kernel

ZIGZAG: Final = (
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
)  # fmt: skip
"""Place in a block, row by row, of each coefficient in zigzag order (T.81, figure A.6)."""


def _fixed(value: float) -> int:
    return round(value * 2**13)


_C6, _C2_C6, _C2 = _fixed(0.541196100), _fixed(0.765366865), _fixed(1.847759065)
_C3, _Z3, _Z4 = _fixed(1.175875602), _fixed(1.961570560), _fixed(0.390180644)
_Z1, _Z2 = _fixed(0.899976223), _fixed(2.562915447)
_T0, _T1, _T2, _T3 = map(_fixed, (0.298631336, 2.053119869, 3.072711026, 1.501321110))
FACTORS: Final = {
    "even": [(_C6, _C6 - _C2), (_C6 + _C2_C6, _C6)],  # of inputs 2 and 6
    "sums": [(_C3 - _Z3, _C3), (_C3, _C3 - _Z4)],  # of the sums 7 + 3 and 5 + 1
    "outer": [(_T0 - _Z1, -_Z1), (-_Z1, _T3 - _Z1)],  # of 7 and 1
    "inner": [(_T1 - _Z2, -_Z2), (-_Z2, _T2 - _Z2)],  # of 5 and 3
}
"""Pairs of factors of two inputs, in units of 2**-13."""
SHIFTS: Final = (11, 18)
"""Bits that are cut off after columns and after rows."""


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.transform:transform_full")
def transform_full(
    coefficients: Any, jobs: Any, at: int, factors: Any, planes: Any, stride: int, scratch: Any
) -> None:
    """Transform 16 blocks.

    Args:
        coefficients: flat int16.
        jobs: flat int64: for each block its first coefficient, and the place of its first level.
        at: the first of the 32 numbers in `jobs`.
        factors: flat int16, 64 * LANES: quantization in zigzag order, each number 16 times.
        planes: flat uint8, receives the levels.
        stride: bytes from row to row of a block in `planes`.
        scratch: (64 * LANES,) int16, contents undefined.
    """
    transform_blocks(transform_8, SHIFTS, coefficients, jobs, at, factors, planes, stride)


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.transform:transform_sparse")
def transform_sparse(
    coefficients: Any, jobs: Any, at: int, factors: Any, planes: Any, stride: int, scratch: Any
) -> None:
    """Transform 16 blocks whose coefficients are zero from the eleventh on."""
    transform_blocks(transform_8, SHIFTS, coefficients, jobs, at, factors, planes, stride)


def transform_8(x: np.ndarray, shift: int) -> np.ndarray:
    """Transform columns: (8, n) int16 to the same, in units of 2**-shift and clipped."""

    def pairs(a: np.ndarray, b: np.ndarray, name: str) -> list[np.ndarray]:
        return [a.astype(np.int32) * f + b.astype(np.int32) * g for f, g in FACTORS[name]]

    even2, even3 = pairs(x[2], x[6], "even")
    low, high = ((x[0] + s * x[4]).astype(np.int16).astype(np.int32) << 13 for s in (1, -1))
    third, fourth = pairs(x[7] + x[3], x[5] + x[1], "sums")
    outer, inner = pairs(x[7], x[1], "outer"), pairs(x[5], x[3], "inner")
    odd = outer[1] + fourth, inner[1] + third, inner[0] + fourth, outer[0] + third
    even = low + even3, high + even2, high - even2, low - even3
    return joined(even, odd, shift)


def joined(even: Sequence[Any], odd: Sequence[Any], shift: int) -> np.ndarray:
    """Return outputs of a pass, int16: the sums of even and odd parts, then the differences.

    The last difference comes first. Parts are int32 in units of 2**-shift; outputs are rounded.
    """
    upper = [e + o for e, o in zip(even, odd, strict=True)]
    lower = [e - o for e, o in zip(even, odd, strict=True)]
    both = (np.stack([*upper, *lower[::-1]]) + np.int32(1 << (shift - 1))) >> shift
    clipped: np.ndarray = np.clip(both, -32768, 32767).astype(np.int16)
    return clipped


def transform_blocks(
    one: Callable[[np.ndarray, int], np.ndarray], shifts: tuple[int, int],
    coefficients: Any, jobs: Any, at: int, factors: Any, planes: Any, stride: int,
) -> None:  # fmt: skip
    """Transform 16 blocks in plain Python; arguments as of `transform_full`.

    `one` transforms columns, (8, n) int16 to (samples, n) int16, in units of 2**-shift.
    """
    for block in range(LANES):
        source, target = (int(number) for number in jobs[at + 2 * block : at + 2 * block + 2])
        values = np.zeros(64, np.int16)
        values[list(ZIGZAG)] = coefficients[source : source + 64] * factors[::LANES]
        columns = one(values.reshape(8, 8), shifts[0])
        samples = one(columns.T.copy(), shifts[1]).T
        for y, levels in enumerate(np.clip(samples, -128, 127) + 128):
            begin = target + y * stride
            planes[begin : begin + levels.size] = levels
