"""The node "bucket": which bucket each step delivers, from the bucket table without sample ids.

The daemon uses it, which holds no ids. The batches of an epoch are those of the first bucket, then
those of the second, and so on; with `shuffle`, in a keyed permutation of that order. O(log buckets)
per step. Any thread may call.
"""

import functools
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.permutation import Permutation
from stoker.order.step_cut import Turn, check_step
from stoker.protocol.size_buckets import Bucket, BucketSteps, Leftovers, tail_of
from stoker.protocol.spec import StreamSpec

BATCHES_LEVEL = 3


class _Epoch(NamedTuple):
    """An epoch: for each bucket its first batch, and that batch's place before shuffling."""

    first: list[int]
    places: list[int]


class BucketTurns:
    """The batches of a stream with buckets; see `stoker.order.step_cut.StepCut`.

    Attributes:
        buckets: the plan's buckets.
        tail: what happens to an incomplete batch, see `BucketSteps`.
        arithmetic: the number of batches of each epoch.
    """

    def __init__(
        self,
        spec: StreamSpec,
        buckets: Sequence[Bucket],
        leftovers: Leftovers,
        *,
        arithmetic: Arithmetic = PLAIN,
    ) -> None:
        """Make the turns of a stream.

        Args:
            spec: the stream.
            buckets: the buckets of its plan.
            leftovers: what happens to leftovers, from the request.
            arithmetic: compiled (imports numba) or plain; the numbers are the same.
        """
        self.buckets = tuple(buckets)
        self.arithmetic = BucketSteps(self.buckets, tail_of(spec.tail, leftovers))
        self.tail = self.arithmetic.tail
        self.steps = self.arithmetic.steps
        self.steps_before = self.arithmetic.steps_before
        self.batches_before = self.arithmetic.batches_before
        self._spec = spec
        self._arithmetic = arithmetic
        self._epoch = functools.lru_cache(maxsize=8)(self._make_epoch)
        self._order = functools.lru_cache(maxsize=4)(self._make_order)

    def turn(self, epoch: int, step: int) -> Turn:
        """Return which batch a step delivers.

        Raises:
            UsageError: the epoch has no such step.
        """
        check_step(epoch, step, self.steps(max(epoch, 0)))
        found = self._epoch(epoch)
        place = self._order(epoch)(step) if self._spec.order.shuffle else step
        bucket = bisect_right(found.places, place) - 1
        return Turn(bucket, found.first[bucket] + place - found.places[bucket])

    def step_of(self, epoch: int, turn: Turn) -> int:
        """Return the step of a batch that an epoch delivers."""
        found = self._epoch(epoch)
        place = found.places[turn.bucket] + turn.number - found.first[turn.bucket]
        return self._order(epoch).inverse(place) if self._spec.order.shuffle else place

    def positions(self, bucket: int) -> int:
        """Return the number of positions in a global batch of a bucket."""
        return self.buckets[bucket].positions

    def _make_epoch(self, epoch: int) -> _Epoch:
        first, places, place = [], [], 0
        for bucket in range(len(self.buckets)):
            first.append(self.batches_before(bucket, epoch))
            places.append(place)
            place += self.batches_before(bucket, epoch + 1) - first[-1]
        return _Epoch(first, places)

    def _make_order(self, epoch: int) -> Permutation:
        return Permutation(
            self.steps(epoch),
            self._spec.order_seed,
            epoch,
            level=BATCHES_LEVEL,
            arithmetic=self._arithmetic,
        )
