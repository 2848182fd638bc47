"""Powers of floats between 0 and 1, many at a time: 2 ** (gamma * log2(x)) in float32.

No branch and no float64, so a loop over them is vectorized with as many lanes as for levels. Both
polynomials are plain series of the functions. The error of gamma * log2(x) grows with
its size, but then the power itself is small: results are within 1.2e-7 of the true ones.
"""

import math
from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.words import float_word, word_float

ZERO: Final = np.float32(0)
HALF: Final = np.float32(0.5)
ONE: Final = np.float32(1)
TWO: Final = np.float32(2)
LEAST_NORMAL: Final = np.float32(2**-126)
TWO_32: Final = np.float32(2**32)
SHIFT: Final = np.int32(32)
MANTISSA: Final = np.int32(23)
BIAS: Final = np.int32(127)
SQRT_HALF: Final = np.int32(0x3F3504F4)
"""Bits of the lowest float32 that is not below sqrt(1/2)."""
LOWEST: Final = np.float32(-126)
"""A power of 2 below this gives 0."""
NOTHING: Final = np.float32(-200)
LN2: Final = 0.6931471805599453
L1, L3, L5, L7, L9 = (np.float32(2 / LN2 / k) for k in (1, 3, 5, 7, 9))
E1, E2, E3, E4, E5, E6, E7 = (np.float32(LN2**k / math.factorial(k)) for k in range(1, 8))


@kernel
def log2_of(x: Any) -> Any:
    """Return the logarithm to the base 2 of a float32 above 0 and below infinity."""
    small = x < LEAST_NORMAL
    word = np.int32(float_word(x * TWO_32 if small else x))
    # x = 2**exponent * (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); log((1+s) / (1-s)) is odd in s.
    exponent = np.int32(np.int32(word - SQRT_HALF) >> MANTISSA)
    f = word_float(np.uint32(np.int32(word - np.int32(exponent << MANTISSA)))) - ONE
    k = np.float32(np.int32(exponent - SHIFT) if small else exponent)
    s = f / (f + TWO)
    z = s * s
    return k + s * (L1 + z * (L3 + z * (L5 + z * (L7 + z * L9))))


@kernel
def exp2_of(e: Any) -> Any:
    """Return 2**e for a float32 that is not above 0; 0 if it is below `LOWEST`."""
    power = e if e > LOWEST else LOWEST
    whole = np.int32(power - HALF)
    r = power - np.float32(whole)
    y = ONE + r * (E1 + r * (E2 + r * (E3 + r * (E4 + r * (E5 + r * (E6 + r * E7))))))
    y = y * word_float(np.uint32(np.int32(whole + BIAS) << MANTISSA))
    return y if e >= LOWEST else ZERO


@kernel
def raise_all(image: Any, gamma: Any) -> None:
    """Raise the values of a flat image to a power: 0 if not above 0, 1 if not below 1."""
    for i in range(np.uint64(image.size)):
        x = image[i]
        inside = x if x > ZERO else HALF
        inside = inside if inside < ONE else HALF
        e = gamma * log2_of(inside)
        y = exp2_of(e if x > ZERO else NOTHING)
        image[i] = ONE if x >= ONE else y


def plain_raised(image: np.ndarray, gamma: np.float32) -> np.ndarray:
    """Return the result of `raise_all` for an image, with NumPy."""
    inside = (image > ZERO) & (image < ONE)
    mantissa, exponent = np.frexp(np.where(inside, image, HALF))
    low = mantissa.view(np.int32) < SQRT_HALF
    f = np.where(low, mantissa * TWO, mantissa) - ONE
    s = f / (f + TWO)
    z = s * s
    logs = (exponent - low).astype(np.float32) + s * (L1 + z * (L3 + z * (L5 + z * (L7 + z * L9))))
    e = gamma * logs
    power = np.maximum(e, LOWEST)
    whole = (power - HALF).astype(np.int32)
    r = power - whole.astype(np.float32)
    y = ONE + r * (E1 + r * (E2 + r * (E3 + r * (E4 + r * (E5 + r * (E6 + r * E7))))))
    raised = np.where(e >= LOWEST, np.ldexp(y, whole), ZERO)
    return np.where(inside, raised, np.where(image >= ONE, ONE, ZERO))
