"""The permutation's compiled twins, in uint64 arithmetic.

Each gives the numbers of the plain function of the same name in `stoker.order.permutation`.
Importing this module imports numba, so only `stoker.rng.jit` does.
"""

import numpy as np

from stoker.order import permutation as plain
from stoker.rng.compiled import key_block
from stoker.rng.jit import handwritten

HEADER = plain.HEADER
MIX_1, MIX_2 = np.uint64(plain.MIX_1), np.uint64(plain.MIX_2)
S24, S32, S40 = np.uint64(24), np.uint64(32), np.uint64(40)


@handwritten
def fill_words(key, out):  # type: ignore[no-untyped-def]
    """Write words 0, 1, 2, ... of draw 0 of a key."""
    for block in range(len(out) // 4):
        words = key_block(key, block)
        for lane in range(4):
            out[4 * block + lane] = words[lane]


@handwritten
def spread(x, key, size):  # type: ignore[no-untyped-def]
    """A keyed pseudo-random number in [0, size)."""
    mixed = (x ^ key) * MIX_1
    mixed ^= mixed >> S32
    mixed *= MIX_2
    return ((mixed >> S24) * size) >> S40


@handwritten
def permute(state, position):  # type: ignore[no-untyped-def]
    """The id at a position, int64."""
    n, a, b = state[0], state[1], state[2]
    x = np.uint64(position)
    while True:
        left = x // b
        right = x - left * b
        for i in range(HEADER, len(state), 2):
            left += spread(right, state[i], a)
            if left >= a:
                left -= a
            right += spread(left, state[i + 1], b)
            if right >= b:
                right -= b
        x = left * b + right
        if x < n:
            return np.int64(x)


@handwritten
def permute_into(state, positions, out):  # type: ignore[no-untyped-def]
    """Write the ids at positions."""
    for i in range(len(positions)):
        out[i] = permute(state, positions[i])
