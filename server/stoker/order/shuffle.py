"""The node "shuffle": the place of the sample, or of the mark, at each position of an epoch.

One keyed permutation, or a block shuffle: blocks of `block` neighboring places come in a permuted
order, and the places inside each block are permuted too, so that reads stay local. The last block
may be short; the inverse permutation gives its place in the permuted order, so every look-up is
O(1) (contract order v1). Any thread may call; a few permutations of recent epochs are cached.
"""

import functools

import numpy as np
from numpy.typing import NDArray

from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.permutation import Permutation

Ids = NDArray[np.int64]
INSIDE_LEVEL = 1


class Shuffle:
    """The permutations of a deck, one for each epoch.

    Attributes:
        count: number of positions, and of places.
    """

    def __init__(
        self,
        count: int,
        seed: int,
        *,
        block: int | None = None,
        part: int = 0,
        level: int = 0,
        arithmetic: Arithmetic = PLAIN,
    ) -> None:
        """Prepare.

        Args:
            count: number of places.
            seed: of the order.
            block: length of a block; None: no blocks.
            part: the number of the deck among those of its level.
            level: which decks the stream has.
            arithmetic: compiled (imports numba) or plain; the numbers are the same.
        """
        self.count = count
        self._seed, self._block, self._part, self._level = seed, block, part, level
        self._arithmetic = arithmetic
        self._outer = functools.lru_cache(maxsize=4)(self._make_outer)
        self._inner = functools.lru_cache(maxsize=64)(self._make_inner)

    def places(self, epoch: int, positions: Ids) -> Ids:
        """Return the places at positions that follow each other, (k,) int64 for (k,) int64."""
        if self._block is None or not len(positions):
            return self._outer(epoch)[0].many_in_range(positions)
        start, stop = int(positions[0]), int(positions[-1]) + 1
        places = np.empty(stop - start, np.int64)
        done = start
        while done < stop:
            block, offset, length = self._block_at(epoch, done)
            end = min(length, offset + stop - done)
            inside = self._inner(epoch, block).many_in_range(np.arange(offset, end, dtype=np.int64))
            places[done - start : done - start + len(inside)] = block * self._block + inside
            done += len(inside)
        return places

    def position(self, epoch: int, place: int) -> int:
        """Return the position of a place, the inverse of `places`."""
        if self._block is None:
            return self._outer(epoch)[0].inverse(place)
        block, offset = divmod(place, self._block)
        order, short_at = self._outer(epoch)
        slot = order.inverse(block)
        missing = order.n * self._block - self.count if slot > short_at else 0
        return slot * self._block - missing + self._inner(epoch, block).inverse(offset)

    def _block_at(self, epoch: int, position: int) -> tuple[int, int, int]:
        """Return (block, offset inside it, its length) at a position."""
        assert self._block is not None
        size = self._block
        order, short_at = self._outer(epoch)
        short = self.count - (order.n - 1) * size
        if position < short_at * size:
            slot, offset = divmod(position, size)
        elif position < short_at * size + short:
            slot, offset = short_at, position - short_at * size
        else:
            slot, offset = divmod(position + size - short, size)
        block = order(slot)
        return block, offset, short if slot == short_at else size

    def _make_outer(self, epoch: int) -> tuple[Permutation, int]:
        """Return the permutation of places or blocks, and the position of the last one."""
        count = self.count if self._block is None else -(-self.count // self._block)
        order = Permutation(
            count, self._seed, epoch, part=self._part, level=self._level,
            arithmetic=self._arithmetic,
        )  # fmt: skip
        return order, 0 if self._block is None else order.inverse(count - 1)

    def _make_inner(self, epoch: int, block: int) -> Permutation:
        assert self._block is not None
        size = min(self._block, self.count - block * self._block)
        return Permutation(
            size, self._seed, epoch, part=block, level=INSIDE_LEVEL, deck=self._part,
            arithmetic=self._arithmetic,
        )  # fmt: skip
