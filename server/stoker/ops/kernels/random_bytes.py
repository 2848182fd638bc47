"""Random bytes by number: the draws of single pixels, from one counter and a record's seed.

Block b of a seed is Philox4x64-10 with the counter (b, 0, 0, 0) and the seed as its key: four
words, 32 bytes, little-endian. So each value of each pixel is independent, and a decision about a
field of noise is a record of two words. Many blocks are made at a time and stay in cache.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.rng.philox import MASK, MULTIPLIER_0, MULTIPLIER_1, ROUNDS, WEYL_0, WEYL_1, philox4x64

BLOCKS: Final = 64
"""Blocks that are made at a time."""
VALUES: Final = 16
"""Pairs of bytes in one block."""
ZERO: Final = np.uint64(0)
ONE: Final = np.uint64(1)
TWO: Final = np.uint64(2)
FOUR: Final = np.uint64(4)


@kernel
def fill_blocks(words: Any, first: int, count: int, seed: Any) -> None:
    """Write `count` blocks from block `first` on, four words each."""
    key = (seed[0], seed[1])
    for i in range(count):
        k = FOUR * np.uint64(i)
        counter: Any = (np.uint64(first + i), ZERO, ZERO, ZERO)
        a, b, c, d = philox4x64(counter, key)
        words[k] = a
        words[k + ONE] = b
        words[k + TWO] = c
        words[k + TWO + ONE] = d


def plain_blocks(numbers: np.ndarray, seed: tuple[int, int]) -> np.ndarray:
    """Return the bytes of blocks of a Philox key, 32 each, with NumPy.

    Args:
        numbers: of the blocks, `(n,) uint64`.
        seed: the key.
    """
    c = [numbers, *(np.zeros(len(numbers), np.uint64) for _ in range(3))]
    k0, k1 = seed
    for _ in range(ROUNDS):
        high0, low0 = plain_wide(c[0], MULTIPLIER_0)
        high1, low1 = plain_wide(c[2], MULTIPLIER_1)
        c = [high1 ^ c[1] ^ np.uint64(k0), low1, high0 ^ c[3] ^ np.uint64(k1), low0]
        k0, k1 = (k0 + WEYL_0) & MASK, (k1 + WEYL_1) & MASK
    return np.stack(c, -1).astype("<u8").view(np.uint8).ravel()


def plain_wide(a: np.ndarray, b: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper and the lower halves of 128-bit products."""
    low, s32 = np.uint64(2**32 - 1), np.uint64(32)
    b0, b1 = np.uint64(b % 2**32), np.uint64(b >> 32)
    a0, a1 = a & low, a >> s32
    middle = a1 * b0 + (a0 * b0 >> s32)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> s32) + (other >> s32), a * np.uint64(b)
