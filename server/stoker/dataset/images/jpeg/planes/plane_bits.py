"""Bits of planes and blocks of levels: the plain forms of what `plane_instructions` has compiled.

Nothing is checked here: callers stay inside of all arrays. Bits are numbered from the lowest bit of
the first byte on. A block of levels is 64 bytes, the magnitudes of its coefficients.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel

READ_AHEAD: Final = 9
"""Bytes from that of the first bit on that `next_bits` reads."""


@kernel(twin="stoker.dataset.images.jpeg.planes.plane_instructions:next_bits")
def next_bits(plain: Any, at: Any) -> Any:
    """Return the 64 bits from bit `at` on, as a uint64."""
    first = int(at) >> 3
    word = int.from_bytes(bytes(plain[first : first + READ_AHEAD]), "little")
    return np.uint64(word >> (int(at) & 7) & 0xFFFFFFFFFFFFFFFF)


@kernel(twin="stoker.dataset.images.jpeg.planes.plane_instructions:few_bits")
def few_bits(plain: Any, at: Any) -> Any:
    """Return the 57 bits from bit `at` on, and perhaps others behind them, as a uint64."""
    first = int(at) >> 3
    return np.uint64(int.from_bytes(bytes(plain[first : first + 8]), "little") >> (int(at) & 7))


@kernel(twin="stoker.dataset.images.jpeg.planes.plane_instructions:low_bits")
def low_bits(bits: Any, count: Any) -> Any:
    """Return the lowest bits of a uint64, 0 to 63."""
    return np.uint64(int(bits) & ((1 << int(count)) - 1))


@kernel(twin="stoker.dataset.images.jpeg.planes.plane_instructions:bit_count")
def bit_count(bits: Any) -> Any:
    """Return how many bits of a uint64 are set."""
    return int(bits).bit_count()


@kernel(twin="stoker.dataset.images.jpeg.planes.plane_instructions:deposit")
def deposit(bits: Any, mask: Any) -> Any:
    """Return a uint64 with the lowest bits at the places of a mask, and zeros elsewhere."""
    found, left, rest = 0, int(mask), int(bits)
    while left:
        low = left & -left
        found |= low if rest & 1 else 0
        left, rest = left ^ low, rest >> 1
    return np.uint64(found)


@kernel(twin="stoker.dataset.images.jpeg.planes.plane_instructions:begin_block")
def begin_block(levels: Any, at: Any, planes: Any, steps: Any, own: Any) -> None:
    """Write the levels of a block from its mask, three low planes and the first unary plane.

    Args:
        levels: flat uint8.
        at: the block's first byte.
        planes: five uint64: mask, low planes with 1, 2 and 4, unary plane.
        steps: flat uint8, what a unary plane adds.
        own: where those of the block's class begin.
    """
    for k in range(64):
        has = [int(plane) >> k & 1 for plane in planes]
        low = has[0] + has[1] + 2 * has[2] + 4 * has[3]
        levels[at + k] = low + has[4] * steps[own + k]


@kernel(twin="stoker.dataset.images.jpeg.planes.plane_instructions:add_plane")
def add_plane(levels: Any, at: Any, plane: Any, steps: Any, own: Any) -> None:
    """Add a unary plane to the levels of a block; arguments as for `begin_block`."""
    for k in range(64):
        if int(plane) >> k & 1:
            levels[at + k] += steps[own + k]


@kernel(twin="stoker.dataset.images.jpeg.planes.plane_instructions:end_block")
def end_block(levels: Any, at: Any, signs: Any, coefficients: Any, to: Any) -> None:
    """Write the coefficients of a block: levels, of which those in `signs` are negative.

    Args:
        levels: flat uint8, each at most 127.
        at: the block's first byte.
        signs: a uint64.
        coefficients: flat int16.
        to: the block's first coefficient.
    """
    for k in range(64):
        level = np.int16(levels[at + k])
        coefficients[to + k] = -level if int(signs) >> k & 1 else level
