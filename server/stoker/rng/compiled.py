"""The compiled twins: draws in uint64 arithmetic, for use inside kernels.

Each replaces the plain function of the same name and gives the same bits; none checks its
arguments (the plain forms do). Importing this module imports numba, so only `stoker.jit` does.
Every constant is an np.uint64: numba would turn uint64 with int64 into float64.

A key is a tuple of five uint64. Draw numbers may be any integer type in [0, 2**32).
"""

import numpy as np

from stoker.jit import handwritten
from stoker.rng import philox as plain
from stoker.rng.intrinsics import multiply_wide
from stoker.rng.maths import exp, log
from stoker.rng.normals import inverse_normal

M0 = np.uint64(plain.MULTIPLIER_0)
M1 = np.uint64(plain.MULTIPLIER_1)
W0 = np.uint64(plain.WEYL_0)
W1 = np.uint64(plain.WEYL_1)
ROUNDS = plain.ROUNDS
ZERO, ONE, TWO, THREE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
S11, S12, S16, S32 = np.uint64(11), np.uint64(12), np.uint64(16), np.uint64(32)
TO_UNIT = 2.0**-53


@handwritten
def philox4x64(counter, key):  # type: ignore[no-untyped-def]
    """Philox4x64-10: four words of a counter (4 uint64) and a key (2 uint64)."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = multiply_wide(c0, M0)
        high1, low1 = multiply_wide(c2, M1)
        c0 = high1 ^ c1 ^ k0
        c1 = low1
        c2 = high0 ^ c3 ^ k1
        c3 = low0
        k0 += W0
        k1 += W1
    return c0, c1, c2, c3


@handwritten
def key_block(key, number):  # type: ignore[no-untyped-def]
    """Block `number` of a key."""
    return philox4x64((np.uint64(number), key[2], key[3], key[4]), (key[0], key[1]))


@handwritten
def make_key(seed, stream, sample_id, epoch, visit=0, view=0):  # type: ignore[no-untyped-def]
    """The key of an op's draws for one row."""
    lane = (np.uint64(visit) << S16) + np.uint64(view)
    return np.uint64(seed), np.uint64(stream), np.uint64(sample_id), np.uint64(epoch), lane


@handwritten
def freeze_value(key, value):  # type: ignore[no-untyped-def]
    """The key with (id, epoch, visit, view) replaced by (value, 0, 0, 0)."""
    return key[0], key[1], np.uint64(value), ZERO, ZERO


@handwritten
def freeze_epoch(key):  # type: ignore[no-untyped-def]
    """The key with the epoch replaced by 0."""
    return key[0], key[1], key[2], ZERO, key[4]


@handwritten
def word(key, k, j):  # type: ignore[no-untyped-def]
    """Word j of draw k."""
    index = np.uint64(j)
    words = key_block(key, (np.uint64(k) << S32) + (index >> TWO))
    lane = index & THREE
    if lane == ZERO:
        return words[0]
    if lane == ONE:
        return words[1]
    return words[2] if lane == TWO else words[3]


@handwritten
def uniform(key, k):  # type: ignore[no-untyped-def]
    """A float64 in [0, 1)."""
    return np.float64(key_block(key, np.uint64(k) << S32)[0] >> S11) * TO_UNIT


@handwritten
def uniform_range(key, k, low, high):  # type: ignore[no-untyped-def]
    """A float64 in [low, high]."""
    start, end = np.float64(low), np.float64(high)
    return min(start + uniform(key, k) * (end - start), end)


@handwritten
def log_uniform(key, k, low, high):  # type: ignore[no-untyped-def]
    """A float64 in [low, high] whose logarithm is uniform."""
    start, end = np.float64(low), np.float64(high)
    first = log(start)
    return min(max(exp(first + uniform(key, k) * (log(end) - first)), start), end)


@handwritten
def integers(key, k, n):  # type: ignore[no-untyped-def]
    """An int64 in [0, n)."""
    bound = np.uint64(n)
    high, low = multiply_wide(word(key, k, 0), bound)
    if low < bound:
        threshold = (ZERO - bound) % bound
        j = 1
        while low < threshold:
            high, low = multiply_wide(word(key, k, j), bound)
            j += 1
    return np.int64(high)


@handwritten
def bernoulli(key, k, p):  # type: ignore[no-untyped-def]
    """True with probability p."""
    return uniform(key, k) < np.float64(p)


@handwritten
def normal(key, k):  # type: ignore[no-untyped-def]
    """A standard normal float64."""
    word0 = key_block(key, np.uint64(k) << S32)[0]
    return inverse_normal(np.float64(((word0 >> S12) << ONE) + ONE) * TO_UNIT)
