"""A keyed bijection on [0, n): the shuffle, in O(1) memory and time (contract order v1).

Position x < n is written as (l, r) = divmod(x, b) on a grid of a columns by b rows that is a little
larger than n. Rounds turn l by a keyed function of r, then r by one of l, and so on: an alternating
Feistel network on mixed radices (J. Black, P. Rogaway, "Ciphers with arbitrary finite domains",
2002). A result of n or more goes through again (cycle walking), which a*b < n + a makes rare.

A power of two as radix would waste up to half of all walks, and a binary Feistel network makes only
even permutations. Here a is even, so both parities occur, and for a tiny n each of the n! orders is
equally likely (docs/contracts/order.md has the figures). Tiny domains mix slowly, so n <= 64 gets
96 rounds; beyond that 24 are ample.

Three forms give the same numbers: `Permutation(...)(x)` in plain integers, `.many` in NumPy, and
`permute`, a kernel on `Permutation.state`, for compiled loops.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stoker.jit import compiled, kernel
from stoker.jit.arithmetic import COMPILED, PLAIN, Arithmetic
from stoker.protocol.errors import UsageError
from stoker.rng.philox import key_block
from stoker.rng.streams import ORDER_STREAM, Key, machine_key, make_key, stream_key

Words = NDArray[np.uint64]
Positions = NDArray[np.int64]

MAX_N: Final = 2**48
TINY: Final = 64
ROUNDS: Final = 24
TINY_ROUNDS: Final = 96
HEADER: Final = 3
"""Words of a state before the round keys: n, a, b."""

MASK: Final = 2**64 - 1
MIX_1: Final = 0x9E3779B97F4A7C15
MIX_2: Final = 0xBF58476D1CE4E5B9
_ORDER: Final = stream_key(ORDER_STREAM)


class Permutation:
    """The order of one epoch: a bijection on [0, n).

    Attributes:
        n: size of the domain, 1 to 2**48.
        state: (3 + rounds,) uint64: n, a, b and the round keys, the input of `permute`.
    """

    def __init__(
        self,
        n: int,
        seed: int,
        epoch: int,
        *,
        part: int = 0,
        level: int = 0,
        deck: int = 0,
        arithmetic: Arithmetic = PLAIN,
    ) -> None:
        """Make the permutation of an epoch.

        Args:
            n: size of the domain.
            seed: the stream's seed, unsigned 64 bits.
            epoch: the epoch, from 0.
            part: which permutation of that level (block shuffle: the block's number).
            level: 0 for the order itself, 1 for the rows inside a block.
            deck: of which deck a block is; 0 if the stream has one.
            arithmetic: compiled (imports numba) or plain; the numbers are the same.

        Raises:
            UsageError: n is not in [1, 2**48], or a part of the key is out of its range.
        """
        if not 1 <= n <= MAX_N:
            raise UsageError(f"permutation: expected n from 1 to 2**48, got {n}")
        self.n = n
        self.state = round_state(n, make_key(seed, _ORDER, part, epoch, deck, level), arithmetic)
        self._plain: list[int] = [int(word) for word in self.state]
        self._one = compiled(permute) if arithmetic.is_compiled else None
        self._into = compiled(permute_into) if arithmetic.is_compiled else None

    def __call__(self, position: int) -> int:
        """Return the id at a position.

        Raises:
            UsageError: the position is not in [0, n).
        """
        self._check("a position", position)
        if self._one is not None:
            return int(self._one(self.state, position))
        return permute(self._plain, position)

    def inverse(self, sample_id: int) -> int:
        """Return the position of an id.

        Raises:
            UsageError: the id is not in [0, n).
        """
        self._check("an id", sample_id)
        return unpermute(self._plain, sample_id)

    def many(self, positions: Positions) -> Positions:
        """Return the ids at positions.

        Args:
            positions: (k,) int64, each in [0, n).

        Returns:
            (k,) int64.

        Raises:
            UsageError: a position is not in [0, n).
        """
        positions = np.asarray(positions, np.int64)
        if positions.size and not 0 <= positions.min() <= positions.max() < self.n:
            self._check("a position", int(positions.min()))
            self._check("a position", int(positions.max()))
        return self.many_in_range(positions.ravel()).reshape(positions.shape)

    def many_in_range(self, positions: Positions) -> Positions:
        """Return the ids at positions, (k,) int64, that are known to be in [0, n)."""
        if self._into is None:
            return _permute_array(self.state, positions)
        out = np.empty(len(positions), np.int64)
        self._into(self.state, positions, out)
        return out

    def _check(self, what: str, value: int) -> None:
        if not 0 <= value < self.n:
            raise UsageError(f"permutation: expected {what} from 0 to {self.n - 1}, got {value}")


def compile_permutation() -> None:
    """Compile the code of orders into the cache on disk, by a call on a tiny order."""
    order = Permutation(2, seed=0, epoch=0, arithmetic=COMPILED)
    order(0)
    order.many(np.arange(2))


def rounds_for(n: int) -> int:
    """Return the number of rounds for a domain of that size."""
    return TINY_ROUNDS if n <= TINY else ROUNDS


def round_state(n: int, key: Key, arithmetic: Arithmetic = PLAIN) -> Words:
    """Return (3 + rounds,) uint64: n, a, b, then words 0, 1, 2, ... of draw 0 of the key."""
    a = math.isqrt(n - 1) + 1
    a += a % 2
    state = np.empty(HEADER + rounds_for(n), np.uint64)
    state[:HEADER] = n, a, -(-n // a)
    if arithmetic.is_compiled:
        compiled(fill_words)(machine_key(key), state[HEADER:])
    else:
        fill_words(key, state[HEADER:])
    return state


@kernel(twin="stoker.order.compiled_permutation:fill_words")
def fill_words(key: Key, out: Words) -> None:
    """Write words 0, 1, 2, ... of draw 0 of a key into an array whose length is a multiple of 4."""
    for block in range(len(out) // 4):
        out[4 * block : 4 * block + 4] = key_block(key, block)


@kernel(twin="stoker.order.compiled_permutation:permute")
def permute(state: Words | list[int], position: int) -> int:
    """Return the id at a position.

    Args:
        state: `Permutation.state`, or the same words as a list.
        position: in [0, n).
    """
    n, a, b = int(state[0]), int(state[1]), int(state[2])
    x = int(position)
    while True:
        left, right = divmod(x, b)
        for i in range(HEADER, len(state), 2):
            left = (left + spread(right, int(state[i]), a)) % a
            right = (right + spread(left, int(state[i + 1]), b)) % b
        x = left * b + right
        if x < n:
            return x


def unpermute(state: Words | list[int], sample_id: int) -> int:
    """Return the position of an id: the rounds of `permute` backwards."""
    n, a, b = int(state[0]), int(state[1]), int(state[2])
    x = int(sample_id)
    while True:
        left, right = divmod(x, b)
        for i in range(len(state) - 2, HEADER - 1, -2):
            right = (right - spread(left, int(state[i + 1]), b)) % b
            left = (left - spread(right, int(state[i]), a)) % a
        x = left * b + right
        if x < n:
            return x


@kernel(twin="stoker.order.compiled_permutation:permute_into")
def permute_into(state: Words, positions: Positions, out: Positions) -> None:
    """Write the ids at (k,) positions into (k,) out."""
    for i in range(len(positions)):
        out[i] = permute(state, positions[i])


@kernel(twin="stoker.order.compiled_permutation:spread")
def spread(x: int, key: int, size: int) -> int:
    """Return a keyed pseudo-random number in [0, size) for x; size <= 2**24."""
    mixed = ((x ^ key) * MIX_1) & MASK
    mixed ^= mixed >> 32
    mixed = (mixed * MIX_2) & MASK
    return ((mixed >> 24) * size) >> 40


def _permute_array(state: Words, positions: Positions) -> Positions:
    x = positions.astype(np.uint64)
    x = _walk(state, x)
    beyond = np.flatnonzero(x >= state[0])
    while beyond.size:
        again = _walk(state, x.flat[beyond])
        x.flat[beyond] = again
        beyond = beyond[again >= state[0]]
    return x.astype(np.int64)


def _walk(state: Words, x: Words) -> Words:
    a, b = state[1], state[2]
    left, right = np.divmod(x, b)
    for i in range(HEADER, len(state), 2):
        left += _spread_array(right, state[i], a)
        left -= a * (left >= a)
        right += _spread_array(left, state[i + 1], b)
        right -= b * (right >= b)
    result: Words = left * b + right
    return result


def _spread_array(x: Words, key: np.uint64, size: np.uint64) -> Words:
    mixed = (x ^ key) * np.uint64(MIX_1)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(MIX_2)
    mixed >>= np.uint64(24)
    mixed *= size
    mixed >>= np.uint64(40)
    return mixed
