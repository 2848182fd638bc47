"""A float64 as its 64 bits and back: exact scaling by powers of two without ldexp or frexp."""

import struct

from stoker.jit.kernels import kernel


@kernel(twin="stoker.rng.intrinsics:float_bits")
def float_bits(x: float) -> int:
    """Return the bits of a float64 as a signed 64-bit integer."""
    bits: int = struct.unpack("<q", struct.pack("<d", x))[0]
    return bits


@kernel(twin="stoker.rng.intrinsics:bits_float")
def bits_float(bits: int) -> float:
    """Return the float64 with these 64 bits, given as a signed integer."""
    x: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return x
