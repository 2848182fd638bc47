"""Draws: numbers made from a key and a draw number k (contract random v1).

Draw k of a key reads the words of the Philox blocks k*2**32, k*2**32 + 1, ...: lanes 0, 1, 2, 3 of
a block, then the next block. So a rejection inside one draw never changes another, and a new
parameter of an op takes a new draw number. k is in [0, 2**32). This is plain Python; each function
has a compiled twin in `stoker.rng.compiled` with the same bits. Specified in
docs/contracts/randomness.md.

The plain forms check their arguments; the compiled forms do not.
"""

from typing import Final

from stoker.jit.kernels import kernel
from stoker.protocol.errors import UsageError
from stoker.rng.maths import exp, log
from stoker.rng.normals import inverse_normal
from stoker.rng.philox import MASK, key_block
from stoker.rng.streams import Key

MAX_DRAW: Final = 2**32 - 1
MAX_RANGE: Final = 2**63
TO_UNIT: Final = 2.0**-53
MAX_FLOAT: Final = 1.7976931348623157e308


@kernel(twin="stoker.rng.compiled:word")
def word(key: Key, k: int, j: int) -> int:
    """Return word j of draw k: lane j % 4 of block k*2**32 + j // 4.

    Raises:
        UsageError: k is outside of [0, 2**32).
    """
    if not 0 <= k <= MAX_DRAW:
        raise UsageError(f"draw number: expected an integer from 0 to {MAX_DRAW}, got {k}")
    return key_block(key, int(k) * 2**32 + int(j) // 4)[int(j) % 4]


@kernel(twin="stoker.rng.compiled:uniform")
def uniform(key: Key, k: int) -> float:
    """Return a float64 in [0, 1): the top 53 bits of word 0, times 2**-53."""
    return (word(key, k, 0) >> 11) * TO_UNIT


@kernel(twin="stoker.rng.compiled:uniform_range")
def uniform_range(key: Key, k: int, low: float, high: float) -> float:
    """Return a float64 in [low, high]: min(low + u*(high - low), high).

    The result is `high` only by rounding.

    Raises:
        UsageError: low > high, or one is not finite.
    """
    low, high = float(low), float(high)
    if not -MAX_FLOAT <= low <= high <= MAX_FLOAT:
        raise UsageError(f"uniform_range: expected finite low <= high, got {low} and {high}")
    return min(low + uniform(key, k) * (high - low), high)


@kernel(twin="stoker.rng.compiled:log_uniform")
def log_uniform(key: Key, k: int, low: float, high: float) -> float:
    """Return a float64 in [low, high] whose logarithm is uniform.

    It is exp(log(low) + u*(log(high) - log(low))), clipped to [low, high].

    Raises:
        UsageError: not 0 < low <= high, or one is not finite.
    """
    low, high = float(low), float(high)
    if not 0.0 < low <= high <= MAX_FLOAT:
        raise UsageError(f"log_uniform: expected finite 0 < low <= high, got {low} and {high}")
    start = log(low)
    return min(max(exp(start + uniform(key, k) * (log(high) - start)), low), high)


@kernel(twin="stoker.rng.compiled:integers")
def integers(key: Key, k: int, n: int) -> int:
    """Return an integer in [0, n); all have exactly the same probability.

    Multiply-shift with rejection (D. Lemire, "Fast random integer generation in an interval",
    2019): with word w and the 128-bit product w*n, the upper half is the result unless the lower
    half is below 2**64 mod n; then the next word is tried.

    Raises:
        UsageError: n is outside of [1, 2**63].
    """
    if not 1 <= n <= MAX_RANGE:
        raise UsageError(f"integers: expected n from 1 to 2**63, got {n}")
    n = int(n)
    threshold = (MASK + 1) % n
    j = 0
    while True:
        product = word(key, k, j) * n
        if product & MASK >= threshold:
            return product >> 64
        j += 1


@kernel(twin="stoker.rng.compiled:bernoulli")
def bernoulli(key: Key, k: int, p: float) -> bool:
    """Return True with probability p: uniform < p.

    Raises:
        UsageError: p is outside of [0, 1].
    """
    if not 0.0 <= p <= 1.0:
        raise UsageError(f"bernoulli: expected p from 0 to 1, got {p}")
    return uniform(key, k) < float(p)


@kernel(twin="stoker.rng.compiled:normal")
def normal(key: Key, k: int) -> float:
    """Return a standard normal float64, within 8.21 of 0.

    The inverse of the normal distribution at (2*(w >> 12) + 1) * 2**-53, w being word 0: it is
    monotone in w and symmetric.
    """
    return inverse_normal(float(2 * (word(key, k, 0) >> 12) + 1) * TO_UNIT)
