"""The order of a stream: (epoch, position) -> (sample id, visit).

Sequential, shuffled by one keyed permutation, or block-shuffled: blocks of `block` neighboring ids
come in a permuted order, and the ids inside each block are permuted too, so that reads stay local.
The last block may be short; the inverse permutation gives its place in the permuted order, so every
lookup is O(1). With tail "pad", positions beyond the dataset are pad rows: id -1, visit 0. With an
exclude list all of this orders the places of the remaining samples. With weights it orders marks,
each of which is a visit of a sample; see `stoker.order.weights`.

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
from stoker.order.weights import Weighting
from stoker.protocol import version
from stoker.protocol.errors import UsageError, VersionError
from stoker.protocol.exclude import Excluded
from stoker.protocol.spec import StreamSpec

PAD_ID: Final = -1

Ids = NDArray[np.int64]


class EpochOrder:
    """The order of a stream.

    Attributes:
        rows: number of rows in an epoch, and of the samples that it may visit.
        limit: valid positions are 0 to this one (exclusive): `rows`, or with tail "pad" the
            positions of all steps.
        remaining: the samples that an epoch may visit; without weights it visits each once.
    """

    def __init__(
        self,
        spec: StreamSpec,
        *,
        excluded: Excluded | None = None,
        weighting: Weighting | None = None,
        arithmetic: Arithmetic = PLAIN,
    ) -> None:
        """Make the order of a spec.

        Args:
            spec: the stream.
            excluded: the samples that it leaves out.
            weighting: the weights of the others, if it has weights.
            arithmetic: compiled (imports numba) or plain; the numbers are the same.

        Raises:
            UsageError: the spec needs an unsupported order, or was made with another exclude list
                or other weights.
            VersionError: the spec was made with another version of a contract.
        """
        check_order(spec)
        self.remaining = Remaining.of(spec, excluded)
        _check_weights(spec, weighting)
        self._weighting = weighting
        self.rows = self.remaining.count
        self.limit = self.rows
        if spec.tail == "pad":
            self.limit = steps_per_epoch(spec) * spec.batch_size
        self._seed = spec.order_seed
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
        place, visit = self._place(epoch, position), 0
        if self._weighting is not None:
            places, visits = self._weighting.at(self._seed, epoch, np.array([place]))
            place, visit = int(places[0]), int(visits[0])
        return self.remaining.id(place), visit

    def find(self, epoch: int, sample_id: int, visit: int = 0) -> int:
        """Return the position of a visit of an id, the inverse of `lookup`.

        Raises:
            UsageError: there is no such id, it is left out or does not come so often, or the epoch
                is negative.
        """
        place = self.remaining.place(sample_id)
        self._check(epoch, 0, 0)
        place = self._mark(epoch, place, sample_id, visit)
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
        visits = np.zeros(stop - start, np.int64)
        end = min(stop, self.rows)
        if start < end:
            self._fill(epoch, start, end, ids[: end - start])
            places = ids[: end - start]
            if self._weighting is not None:
                places, visits[: end - start] = self._weighting.at(self._seed, epoch, places)
            ids[: end - start] = self.remaining.ids(places)
        return ids, visits

    def _mark(self, epoch: int, place: int, sample_id: int, visit: int) -> int:
        """Return what the permutation orders, for a visit of a place: a mark, or the place."""
        if self._weighting is None:
            count, mark = 1, None if visit else place
        else:
            count = self._weighting.count_of(self._seed, epoch, place)
            mark = self._weighting.mark(self._seed, epoch, place, visit)
        if mark is None:
            raise UsageError(
                f"sample {sample_id}: expected a visit below {count}, got {visit}: it comes "
                f"{count} times in epoch {epoch}"
            )
        return mark

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
    _check_contracts(spec)
    order = spec.order
    given = [] if order.subset is None else [f"order.subset={order.subset!r}"]
    if spec.mix is not None:
        given.append(f"mix={spec.mix!r}")
    if spec.buckets is not None and not with_buckets:
        given.append(f"buckets={spec.buckets!r}")
    if order.kind == "subset":
        given.insert(0, f"order.kind={order.kind!r}")
    if given:
        raise UsageError(
            f"{', '.join(given)}: this version supports order.kind='full' and 'weighted', without "
            "order.subset or buckets: a subset is an exclude list of all other samples"
        )
    if (order.kind == "weighted") != (order.weights is not None):
        raise UsageError(
            f"order.kind={order.kind!r}, order.weights={order.weights!r}: expected kind 'weighted' "
            "exactly if there are weights"
        )
    if order.weights is not None and with_buckets:
        raise UsageError("order.weights: buckets have their own order; leave weights out")
    if order.block is not None and with_buckets:
        raise UsageError(
            f"order.block={order.block}: buckets have their own order; leave block out"
        )
    if order.block is not None and (order.block < 1 or not order.shuffle):
        raise UsageError(
            f"order.block: expected a length from 1, with shuffle=True; got block={order.block},"
            f" shuffle={order.shuffle}"
        )


def _check_weights(spec: StreamSpec, weighting: Weighting | None) -> None:
    """Check that the weights are those that the spec was made with, one per remaining sample."""
    digest = None if weighting is None else weighting.digest
    if digest != spec.order.weights or (weighting and weighting.count != spec.epoch_rows):
        raise UsageError(
            f"expected weights {spec.order.weights} of {spec.epoch_rows} samples, which the stream "
            f"was made with, got {digest} of {0 if weighting is None else weighting.count}"
        )


def _check_contracts(spec: StreamSpec) -> None:
    """Check that the spec was made with our versions of the random and order contracts."""
    for name, got, ours in (
        ("random", spec.contracts.random, version.RANDOM),
        ("order", spec.contracts.order, version.ORDER),
    ):
        if got != ours:
            raise VersionError(
                f"contract {name!r}: the spec has version {got}, but this Stoker has {ours}: use "
                "the Stoker that made the spec, or start a new stream"
            )
