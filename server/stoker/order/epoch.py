"""The order of a stream: (epoch, position) -> (sample id, visit), for kind "full".

Sequential, shuffled by one keyed permutation, or block-shuffled: blocks of `block` neighboring ids
come in a permuted order, and the ids inside each block are permuted too, so that reads stay local.
The last block may be short; the inverse permutation gives its place in the permuted order, so every
lookup is O(1). With tail "pad", positions beyond the dataset are pad rows: id -1, visit 0. With an
exclude list all of this orders the places of the remaining samples.

Any thread may call; a few permutations of recent epochs and blocks are cached.
"""

import functools
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.batches import steps_per_epoch
from stoker.order.permutation import Permutation
from stoker.order.remaining import Remaining
from stoker.protocol import version
from stoker.protocol.errors import UsageError, VersionError
from stoker.protocol.exclude import Excluded
from stoker.protocol.spec import StreamSpec

PAD_ID: Final = -1

Ids = NDArray[np.int64]


class EpochOrder:
    """The order of a stream.

    Attributes:
        rows: number of samples that an epoch visits.
        limit: valid positions are 0 to this one (exclusive): `rows`, or with tail "pad" the
            positions of all steps.
        remaining: the samples that an epoch visits.
    """

    def __init__(
        self, spec: StreamSpec, *, excluded: Excluded | None = None, arithmetic: Arithmetic = PLAIN
    ) -> None:
        """Make the order of a spec.

        Args:
            spec: the stream.
            excluded: the samples that it leaves out.
            arithmetic: compiled (imports numba) or plain; the numbers are the same.

        Raises:
            UsageError: the spec needs an unsupported order, or was made with another exclude list.
            VersionError: the spec was made with another version of a contract.
        """
        check_order(spec)
        self.remaining = Remaining.of(spec, excluded)
        self.rows = self.remaining.count
        self.limit = self.rows
        if spec.tail == "pad":
            self.limit = steps_per_epoch(spec) * spec.batch_size
        self._seed = spec.seed
        self._shuffle = spec.order.shuffle
        self._block = spec.order.block
        self._arithmetic = arithmetic
        self._outer = functools.lru_cache(maxsize=4)(self._make_outer)
        self._inner = functools.lru_cache(maxsize=64)(self._make_inner)

    def lookup(self, epoch: int, position: int) -> tuple[int, int]:
        """Return (id, visit) at a position; id -1 for a pad row.

        Raises:
            UsageError: the position is not in [0, limit), or the epoch is negative.
        """
        self._check(epoch, position, position + 1)
        if position >= self.rows:
            return PAD_ID, 0
        return self.remaining.id(self._place(epoch, position)), 0

    def find(self, epoch: int, sample_id: int) -> int:
        """Return the position of an id, the inverse of `lookup`.

        Raises:
            UsageError: there is no such id, it is left out, or the epoch is negative.
        """
        place = self.remaining.place(sample_id)
        self._check(epoch, 0, 0)
        if not self._shuffle:
            return place
        if self._block is None:
            return self._outer(epoch)[0].inverse(place)
        block, offset = divmod(place, self._block)
        order, short_at = self._outer(epoch)
        slot = order.inverse(block)
        missing = order.n * self._block - self.rows if slot > short_at else 0
        return slot * self._block - missing + self._inner(epoch, block).inverse(offset)

    def lookup_range(self, epoch: int, start: int, stop: int) -> tuple[Ids, Ids]:
        """Return the ids and visits at the positions [start, stop).

        Returns:
            (ids, visits), each (stop - start,) int64; id -1 for a pad row.

        Raises:
            UsageError: a position is not in [0, limit), or the epoch is negative.
        """
        self._check(epoch, start, stop)
        ids = np.full(stop - start, PAD_ID, np.int64)
        end = min(stop, self.rows)
        if start < end:
            self._fill(epoch, start, end, ids[: end - start])
            ids[: end - start] = self.remaining.ids(ids[: end - start])
        return ids, np.zeros(stop - start, np.int64)

    def _place(self, epoch: int, position: int) -> int:
        """Return the place of the sample at a position."""
        if not self._shuffle:
            return position
        if self._block is None:
            return self._outer(epoch)[0](position)
        block, offset, _ = self._block_at(epoch, position)
        return block * self._block + self._inner(epoch, block)(offset)

    def _fill(self, epoch: int, start: int, stop: int, ids: Ids) -> None:
        if self._shuffle and self._block is not None:
            self._fill_blocks(epoch, start, stop, ids)
            return
        ids[:] = np.arange(start, stop, dtype=np.int64)
        if self._shuffle:
            ids[:] = self._outer(epoch)[0].many(ids)

    def _fill_blocks(self, epoch: int, start: int, stop: int, ids: Ids) -> None:
        assert self._block is not None
        done = start
        while done < stop:
            block, offset, length = self._block_at(epoch, done)
            end = min(length, offset + stop - done)
            places = np.arange(offset, end, dtype=np.int64)
            inside = self._inner(epoch, block).many(places)
            ids[done - start : done - start + len(places)] = block * self._block + inside
            done += len(places)

    def _block_at(self, epoch: int, position: int) -> tuple[int, int, int]:
        """Return (block, offset inside it, its length) at a position."""
        assert self._block is not None
        size = self._block
        order, short_at = self._outer(epoch)
        short = self.rows - (order.n - 1) * size
        if position < short_at * size:
            slot, offset = divmod(position, size)
        elif position < short_at * size + short:
            slot, offset = short_at, position - short_at * size
        else:
            slot, offset = divmod(position + size - short, size)
        block = order(slot)
        return block, offset, short if slot == short_at else size

    def _make_outer(self, epoch: int) -> tuple[Permutation, int]:
        """Return the permutation of ids or blocks, and the place of the last one."""
        count = self.rows if self._block is None else -(-self.rows // self._block)
        order = Permutation(count, self._seed, epoch, arithmetic=self._arithmetic)
        return order, order.inverse(count - 1)

    def _make_inner(self, epoch: int, block: int) -> Permutation:
        assert self._block is not None
        size = min(self._block, self.rows - block * self._block)
        return Permutation(
            size, self._seed, epoch, part=block, level=1, arithmetic=self._arithmetic
        )

    def _check(self, epoch: int, start: int, stop: int) -> None:
        if epoch < 0:
            raise UsageError(f"epoch: expected one from 0, got {epoch}")
        if not 0 <= start <= stop <= self.limit:
            raise UsageError(
                f"positions: expected them in [0, {self.limit}), got [{start}, {stop})"
            )


def check_order(spec: StreamSpec, *, with_buckets: bool = False) -> None:
    """Check that this version can deliver the order of a spec.

    Args:
        spec: the stream.
        with_buckets: whether it has buckets.

    Raises:
        UsageError: it cannot; the message says what is supported.
        VersionError: the spec was made with another version of the random or order contract.
    """
    for name, got, ours in (
        ("random", spec.contracts.random, version.RANDOM),
        ("order", spec.contracts.order, version.ORDER),
    ):
        if got != ours:
            raise VersionError(
                f"contract {name!r}: the spec has version {got}, but this Stoker has {ours}: use "
                "the Stoker that made the spec, or start a new stream"
            )
    order = spec.order
    given = [
        f"order.{name}={value!r}"
        for name, value in (("subset", order.subset), ("weights", order.weights))
        if value is not None
    ]
    if spec.buckets is not None and not with_buckets:
        given.append(f"buckets={spec.buckets!r}")
    if order.kind != "full":
        given.insert(0, f"order.kind={order.kind!r}")
    if given:
        raise UsageError(
            f"{', '.join(given)}: this version supports only whole datasets: order.kind='full', "
            "with shuffle and block, without subset, weights or buckets"
        )
    if order.block is not None and with_buckets:
        raise UsageError(
            f"order.block={order.block}: buckets have their own order; leave block out"
        )
    if order.block is not None and (order.block < 1 or not order.shuffle):
        raise UsageError(
            f"order.block: expected a length from 1, with shuffle=True; got block={order.block},"
            f" shuffle={order.shuffle}"
        )
