"""float32 to float16 bits and back: numba cannot store float16, so kernels see it as uint16.

Rounded to nearest, halves to even; values that are too large become infinite. Every NaN becomes
0x7E00: processors and libraries keep different bits of a NaN.

Compiled, the processor converts (`simd.halves`); `narrowed_bits` and `widened_bits`
do the same in integers, for processors that cannot.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.words import float_word, word_float

MAGNITUDE: Final = np.uint32(0x7FFFFFFF)
SIGN: Final = np.uint32(0x8000)
HALF_ONE: Final = np.float32(0.5)
HALF_BITS: Final = np.uint32(0x3F000000)
"""Bits of float32 0.5, whose last bit weighs as much as float16's smallest step."""
NORMAL: Final = np.uint32(0x38800000)
"""Bits of 2**-14, the smallest normal float16, as float32."""
REBIAS: Final = np.uint32(0x37FFF001)
"""(127 - 15) << 23, less the 0xFFF that rounds to nearest."""
EXPONENT: Final = np.uint32(0x7C00)
"""Infinity's exponent bits of float16; alone, they are infinity."""
NOT_SIGN: Final = np.uint32(0x7FFF)
INFINITE: Final = np.uint32(0x7F800000)
SCALE: Final = np.float32(2.0**112)
NOT_A_NUMBER: Final = np.uint16(0x7E00)
ONE: Final = np.uint32(1)
B13: Final = np.uint32(13)
B16: Final = np.uint32(16)


@kernel(twin="stoker.ops.kernels.simd.halves.conversions:widened")
def widened(bits: Any) -> Any:
    """Return the float32 of float16 bits, a uint16."""
    return np.float32(np.uint16(bits).view(np.float16))


@kernel(twin="stoker.ops.kernels.simd.halves.conversions:narrowed")
def narrowed(x: Any) -> Any:
    """Return the float16 bits of a float32, as a uint16."""
    return to_halves(np.float32(x).reshape(1))[0]


@kernel
def widened_bits(bits: Any) -> Any:
    """Return the float32 of float16 bits, a uint16, by integer arithmetic and one product."""
    word = np.uint32(bits)
    size = word_float(np.uint32(np.uint32(word & NOT_SIGN) << B13)) * SCALE
    found = float_word(size)
    if np.uint32(word & EXPONENT) == EXPONENT:
        found = np.uint32(found | INFINITE)
    return word_float(np.uint32(found | np.uint32(np.uint32(word & SIGN) << B16)))


@kernel
def narrowed_bits(x: Any) -> Any:
    """Return the float16 bits of a float32, by integer arithmetic.

    Values below the normal range are rounded by one float32 addition of 0.5.
    """
    word = float_word(x)
    size = np.uint32(word & MAGNITUDE)
    odd = np.uint32(np.uint32(size >> B13) & ONE)
    normal = min(np.uint32(np.uint32(size - REBIAS + odd) >> B13), EXPONENT)
    small = np.uint32(float_word(np.float32(abs(x) + HALF_ONE)) - HALF_BITS)
    found = small if size < NORMAL else normal
    found = np.uint32(np.uint32(np.uint32(word >> B16) & SIGN) | found)
    return NOT_A_NUMBER if size > INFINITE else np.uint16(found)


@kernel
def narrow_run(values: Any, start: Any, count: Any, dst: Any, at: Any) -> None:
    """Write `count` float32 values, from index `start` on, as float16 bits; indices are uint64."""
    for i in range(count):
        dst[at + i] = narrowed(values[start + i])


def to_halves(values: np.ndarray) -> np.ndarray:
    """Return the float16 bits of float32 values, by NumPy; the reference of all forms above."""
    with np.errstate(all="ignore"):
        bits = values.astype(np.float16).view(np.uint16)
    bits[np.isnan(values)] = NOT_A_NUMBER
    return bits
