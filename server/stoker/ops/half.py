"""float32 to float16, rounded to nearest, halves to even, as integer bits that numba can store."""

from typing import Any, Final

import numpy as np

from stoker.rng.jit import kernel

MAGNITUDE: Final = np.uint32(0x7FFFFFFF)
SIGN: Final = np.uint32(0x8000)
HALF_ONE: Final = np.float32(0.5)
HALF_BITS: Final = np.uint32(0x3F000000)
"""Bits of float32 0.5, whose last bit weighs as much as float16's smallest step."""
NORMAL: Final = np.uint32(0x38800000)
"""Bits of 2**-14, the smallest normal float16, as float32."""
REBIAS: Final = np.uint32(0x37FFF001)
"""(127 - 15) << 23, less the 0xFFF that rounds to nearest."""
INFINITE: Final = np.uint32(0x7C00)
ONE: Final = np.uint32(1)
B13: Final = np.uint32(13)
B16: Final = np.uint32(16)


@kernel
def to_half(values: Any, raised: Any, start: Any, count: Any, dst: Any, at: Any) -> None:
    """Write finite float32 values as float16 bits.

    Values below the normal range are rounded by one float32 addition of 0.5, all others by integer
    arithmetic on their bits; too great ones become infinite.

    Args:
        values: (float32, the same memory as uint32).
        raised: scratch as long as `values`: (float32, the same memory as uint32).
        start: index of the first value, uint64.
        count: how many, uint64.
        dst: flat uint16.
        at: first index in `dst`, uint64.
    """
    floats, bits = values
    sums, sum_bits = raised
    for i in range(count):
        sums[i] = abs(floats[start + i]) + HALF_ONE
    for i in range(count):
        word = bits[start + i]
        size = np.uint32(word & MAGNITUDE)
        odd = np.uint32(np.uint32(size >> B13) & ONE)
        normal = min(np.uint32(np.uint32(size - REBIAS + odd) >> B13), INFINITE)
        small = np.uint32(sum_bits[i] - HALF_BITS)
        result = small if size < NORMAL else normal
        dst[at + i] = np.uint16(np.uint32(np.uint32(word >> B16) & SIGN) | result)
