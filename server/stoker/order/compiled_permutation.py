"""The permutation's compiled twins, in uint64 arithmetic.

Each equals the plain function of the same name in `stoker.order.permutation`.
Importing this module imports numba, so only `stoker.jit` does.
"""

import numpy as np

from stoker.jit import handwritten
from stoker.order import permutation as plain
from stoker.rng.compiled import key_block

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
def turn(value, other, key, size):  # type: ignore[no-untyped-def]
    """One round: one half, turned by a keyed function of the other."""
    value += spread(other, key, size)
    return value - size if value >= size else value


@handwritten
def permute(state, position):  # type: ignore[no-untyped-def]
    """The id at a position, int64."""
    n, a, b = state[0], state[1], state[2]
    x = np.uint64(position)
    while True:
        left = x // b
        right = x - left * b
        for i in range(HEADER, len(state), 2):
            left = turn(left, right, state[i], a)
            right = turn(right, left, state[i + 1], b)
        x = left * b + right
        if x < n:
            return np.int64(x)


@handwritten
def permute_into(state, positions, out):  # type: ignore[no-untyped-def]
    """Write the ids at positions: four at a time, because each round waits for the last one."""
    n, a, b = state[0], state[1], state[2]
    whole = len(positions) // 4 * 4
    for at in range(0, whole, 4):
        x0, x1 = np.uint64(positions[at]), np.uint64(positions[at + 1])
        x2, x3 = np.uint64(positions[at + 2]), np.uint64(positions[at + 3])
        l0, l1, l2, l3 = x0 // b, x1 // b, x2 // b, x3 // b
        r0, r1, r2, r3 = x0 - l0 * b, x1 - l1 * b, x2 - l2 * b, x3 - l3 * b
        for i in range(HEADER, len(state), 2):
            key = state[i]
            l0, l1 = turn(l0, r0, key, a), turn(l1, r1, key, a)
            l2, l3 = turn(l2, r2, key, a), turn(l3, r3, key, a)
            key = state[i + 1]
            r0, r1 = turn(r0, l0, key, b), turn(r1, l1, key, b)
            r2, r3 = turn(r2, l2, key, b), turn(r3, l3, key, b)
        x0, x1, x2, x3 = l0 * b + r0, l1 * b + r1, l2 * b + r2, l3 * b + r3
        out[at] = x0 if x0 < n else permute(state, x0)
        out[at + 1] = x1 if x1 < n else permute(state, x1)
        out[at + 2] = x2 if x2 < n else permute(state, x2)
        out[at + 3] = x3 if x3 < n else permute(state, x3)
    for at in range(whole, len(positions)):
        out[at] = permute(state, positions[at])
