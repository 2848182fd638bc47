"""Philox4x64-10, the block function under every draw, in plain Python integers.

Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11.
Bit-identical to Random123's known answers. A block is four unsigned 64-bit words (lanes) from a
counter of four and a key of two words; it has no state, so any block can be computed directly.

The block of a `Key` and a block number b is Philox with key (seed, stream) and counter
(b, id, epoch, lane).
"""

from typing import Final

from stoker.jit.kernels import kernel
from stoker.rng.streams import Key

MULTIPLIER_0: Final = 0xD2E7470EE14C6C93
MULTIPLIER_1: Final = 0xCA5A826395121157
WEYL_0: Final = 0x9E3779B97F4A7C15
WEYL_1: Final = 0xBB67AE8584CAA73B
ROUNDS: Final = 10
MASK: Final = 2**64 - 1

Words = tuple[int, int, int, int]


@kernel(twin="stoker.rng.compiled:philox4x64")
def philox4x64(counter: Words, key: tuple[int, int]) -> Words:
    """Return the four words of one block.

    Args:
        counter: four integers in [0, 2**64).
        key: two integers in [0, 2**64).
    """
    c0, c1, c2, c3 = (int(word) for word in counter)
    k0, k1 = (int(word) for word in key)
    for _ in range(ROUNDS):
        left = c0 * MULTIPLIER_0
        right = c2 * MULTIPLIER_1
        c0, c1, c2, c3 = (
            (right >> 64) ^ c1 ^ k0,
            right & MASK,
            (left >> 64) ^ c3 ^ k1,
            left & MASK,
        )
        k0 = (k0 + WEYL_0) & MASK
        k1 = (k1 + WEYL_1) & MASK
    return c0, c1, c2, c3


@kernel(twin="stoker.rng.compiled:key_block")
def key_block(key: Key, number: int) -> Words:
    """Return block `number` (in [0, 2**64)) of a key: four words."""
    return philox4x64((int(number), key[2], key[3], key[4]), (key[0], key[1]))
