"""The order of a stream with buckets: (epoch, step) -> bucket, and the rows of its batch.

For every epoch the samples of a bucket have the order of their own keyed permutation. With tail
"carry" these orders are joined end to end and cut every `positions`; so samples that are left over
at the end of an epoch come first in the next one, and nothing has to be stored. A carried row keeps
the epoch of its permutation, and draws with it. The batches of an epoch are those of the first
bucket, then those of the second, and so on; with `shuffle`, in a keyed permutation of that order.

Every lookup costs O(log buckets); the only memory is the plan's. Any thread may call.
"""

import functools

import numpy as np

from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.buckets.plan import BucketPlan
from stoker.order.buckets.turns import BucketTurns, Turn
from stoker.order.epoch import PAD_ID, check_order
from stoker.order.permutation import Permutation
from stoker.order.stream import Found, Ids, RowColumns
from stoker.order.substitutes import substitute
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import StreamSpec

INSIDE_LEVEL = 2


class BucketOrder:
    """The order of a stream with buckets; see `stoker.order.stream.StreamOrder`.

    Attributes:
        plan: the buckets.
        turns: the bucket of each step.
    """

    def __init__(
        self, spec: StreamSpec, plan: BucketPlan, *, arithmetic: Arithmetic = PLAIN
    ) -> None:
        """Make the order of a spec.

        Args:
            spec: the stream.
            plan: the plan whose digest is in the spec.
            arithmetic: compiled (imports numba) or plain; the numbers are the same.

        Raises:
            UsageError: the spec was made for another plan, or needs an unsupported order.
            VersionError: the spec was made with another version of a contract.
        """
        check_order(spec, with_buckets=True)
        if spec.buckets != plan.digest:
            raise UsageError(
                f"the stream was made for bucket plan {spec.buckets}, but this one is "
                f"{plan.digest}: dataset, request or batch size differ"
            )
        self.plan = plan
        self.turns = BucketTurns(spec, plan.buckets, plan.request.leftovers, arithmetic=arithmetic)
        self._spec = spec
        self._arithmetic = arithmetic
        self._inside = functools.lru_cache(maxsize=2 * len(plan.buckets))(self._make_inside)

    def steps(self, epoch: int) -> int:
        """Return the number of batches that an epoch delivers."""
        return self.turns.steps(epoch)

    def progress(self, epoch: int, step: int) -> float | None:
        """Return the part of the training that is over before a step; None without a length."""
        if self._spec.total_epochs is None:
            return None
        whole = self.turns.steps_before(self._spec.total_epochs)
        return min(self.turns.steps_before(epoch) + step, whole) / whole

    def bucket(self, epoch: int, step: int) -> int | None:
        """Return the number of the bucket that a step delivers.

        Raises:
            UsageError: the epoch has no such step.
        """
        return self.turns.turn(epoch, step).bucket

    def positions(self, epoch: int, step: int) -> int:
        """Return the number of positions in the global batch of a step."""
        return self.plan.buckets[self.turns.turn(epoch, step).bucket].positions

    def rows(self, epoch: int, step: int, lo: int, hi: int) -> RowColumns:
        """Return the rows [lo, hi) of the global batch of a step.

        Raises:
            UsageError: the epoch has no such step, or the batch has no such rows.
        """
        bucket, number = self.turns.turn(epoch, step)
        positions = self.plan.buckets[bucket].positions
        count = positions * self._spec.views
        if not 0 <= lo <= hi <= count:
            raise UsageError(f"rows: expected 0 <= lo <= hi <= {count}, got {lo} and {hi}")
        offsets = np.arange(lo, hi, dtype=np.int64)
        views = np.zeros(len(offsets), np.int64)
        if self._spec.views > 1:
            offsets, views = np.divmod(offsets, self._spec.views)
        ids, epochs, places = self._stretch(bucket, epoch, number, offsets)
        return RowColumns(ids, np.zeros(len(ids), np.int64), epochs, places, views)

    def left_over(self, bucket: int, epoch: int) -> Ids:
        """Return the ids of a bucket that fill no batch by the end of an epoch, in order."""
        found = self.plan.buckets[bucket]
        stop = self.turns.batches_before(bucket, epoch + 1)
        if self.turns.tail == "carry":
            count = (epoch + 1) * found.samples - stop * found.positions
        else:
            batches = stop - self.turns.batches_before(bucket, epoch)
            count = max(found.samples - batches * found.positions, 0)
        return self._stretch(bucket, epoch, stop, np.arange(count, dtype=np.int64))[0]

    def _stretch(self, bucket: int, epoch: int, number: int, offsets: Ids) -> tuple[Ids, Ids, Ids]:
        """Return (ids, epochs, positions) at ascending offsets from the start of a batch."""
        found = self.plan.buckets[bucket]
        samples = found.samples
        if self.turns.tail == "carry":
            epoch, place = divmod(number * found.positions, samples)
            places = offsets + place
        else:
            places = offsets + (number - self.turns.first_of(bucket, epoch)) * found.positions
        epochs = np.full(len(offsets), epoch, np.int64)
        if not len(places) or places[-1] < samples:
            return self._ids(bucket, epoch, places), epochs, places
        ids = np.full(len(places), PAD_ID, np.int64)
        if self.turns.tail == "carry":
            more, places = np.divmod(places, samples)
            epochs += more
            starts = np.flatnonzero(np.diff(epochs, prepend=epochs[0] - 1))
            for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
                ids[start:end] = self._ids(bucket, int(epochs[start]), places[start:end])
        else:
            end = int(np.searchsorted(places, samples))
            ids[:end] = self._ids(bucket, epoch, places[:end])
        return ids, epochs, places

    def substitute(self, epoch: int, position: int, bad_id: int, attempt: int) -> tuple[int, int]:
        """Return (id, visit) of the substitute for a bad row, from the same bucket.

        Args:
            epoch: the epoch of the bad row's permutation.
            position: its position in that permutation.
            bad_id: its id.
            attempt: 1 to 16.
        """
        bucket, _ = self.plan.locate(bad_id)
        ids = self.plan.ids(bucket)
        place, visit = substitute(self._spec, epoch, position, bad_id, attempt, among=len(ids))
        return int(ids[place]), visit

    def peers(self, epoch: int, step: int) -> int:
        """Return the number of samples of a step's bucket."""
        return self.plan.buckets[self.turns.turn(epoch, step).bucket].samples

    def peer(self, epoch: int, step: int, number: int) -> int:
        """Return the id of a sample of the step's bucket, by number from 0."""
        return int(self.plan.ids(self.turns.turn(epoch, step).bucket)[number])

    def find(self, epoch: int, sample_id: int, visit: int = 0) -> Found:
        """Return where a row is delivered.

        Args:
            epoch: the epoch of its permutation.
            sample_id: its id.
            visit: 0, or for a substitute the position of the bad row plus 1.

        Raises:
            UsageError: there is no such id, or the epoch is negative.
        """
        bucket, place = self.plan.locate(sample_id)
        if epoch < 0:
            raise UsageError(f"epoch: expected one from 0, got {epoch}")
        samples, size = self.plan.buckets[bucket].samples, self.plan.buckets[bucket].positions
        position = visit - 1
        if not visit:
            position = place
            if self._spec.order.shuffle:
                position = self._inside(bucket, epoch).inverse(place)
        if position >= samples:
            raise UsageError(
                f"expected a visit of at most {samples}, the samples in the bucket of id "
                f"{sample_id}, got {visit}"
            )
        at = epoch
        if self.turns.tail == "carry":
            number = (epoch * samples + position) // size
            at = ((number + 1) * size - 1) // samples
        else:
            number = self.turns.first_of(bucket, epoch) + position // size
            if number >= self.turns.batches_before(bucket, epoch + 1):
                return Found(bucket, position, None)
        return Found(bucket, position, (at, self.turns.step_of(at, Turn(bucket, number))))

    def _ids(self, bucket: int, epoch: int, places: Ids) -> Ids:
        if self._spec.order.shuffle:
            places = self._inside(bucket, epoch).many_in_range(places)
        return self.plan.ids(bucket)[places].astype(np.int64)

    def _make_inside(self, bucket: int, epoch: int) -> Permutation:
        found = self.plan.buckets[bucket]
        part = found.width << 16 | found.height
        return Permutation(
            found.samples, self._spec.order_seed, epoch, part=part, level=INSIDE_LEVEL,
            arithmetic=self._arithmetic,
        )  # fmt: skip
