"""The order of any stream: (epoch, step) -> the rows of a global batch.

It is composed of nodes: select, repeat and shuffle make a deck (`stoker.order.deck`); a mixture
takes turns among decks; a bucket has rows of its own; the cut says which rows a step delivers. Code
that computes rows uses only a `StreamOrder`. Any thread may call.
"""

import functools
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.order.buckets.bucket_plan import BucketPlan
from stoker.order.deck import Deck, DeckEntries, Ids, Rows
from stoker.order.step_cut import StepCut, Turn
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import StreamSpec
from stoker.rng.row import Row, row_words

PAD_ID: Final = -1


class RowColumns(NamedTuple):
    """Rows of a global batch; each is `(n,) int64`.

    Attributes:
        ids: sample ids; -1 for pad rows.
        visits: how often the id came before in its epoch.
        epochs: the epoch that the row belongs to and draws with: that of its deck. With buckets it
            may be earlier than that of its batch; in a mixture each dataset has epochs of its own.
        positions: place of the row in that epoch of its deck.
        views: views of the positions.
    """

    ids: Ids
    visits: Ids
    epochs: Ids
    positions: Ids
    views: Ids

    def words(self, seed: int) -> NDArray[np.uint64]:
        """Return what draws depend on, (n, 4) uint64; see `stoker.rng.row`."""
        return row_words(seed, self.ids, self.epochs, self.visits, self.views)

    def rows(self, seed: int, step: int, progress: float | None) -> list[Row]:
        """Return each row of these, pad rows with id -1.

        Args:
            seed: of the stream.
            step: in the epoch.
            progress: how much of the training is over before the step.
        """
        columns = (self.ids, self.epochs, self.visits, self.views)
        return [
            Row(seed, sample_id, epoch, visit, view, step, progress)
            for sample_id, epoch, visit, view in zip(*(c.tolist() for c in columns), strict=True)
        ]


class Found(NamedTuple):
    """The place at which a row is delivered.

    Attributes:
        bucket: number of its bucket, None without buckets.
        position: its position, see `RowColumns`.
        place: (epoch, step) of its batch; None if it is in none.
    """

    bucket: int | None
    position: int
    place: tuple[int, int] | None


class StreamOrder:
    """The order of a stream: rows, cut into batches. `stoker.order.compose` makes it.

    Attributes:
        rows_of: the rows that batches are cut from, one for each bucket; without buckets one.
        cut: which of them each step delivers.
        firsts: first id of each dataset of the stream, and the number of all ids.
        plan: the buckets, if there are any.
    """

    def __init__(
        self,
        spec: StreamSpec,
        rows_of: Sequence[Rows],
        cut: StepCut,
        firsts: Sequence[int],
        plan: BucketPlan | None = None,
    ) -> None:
        self.rows_of = tuple(rows_of)
        self.cut = cut
        self.firsts = tuple(firsts)
        self.plan = plan
        self._views = spec.views
        self._total = None if spec.total_epochs is None else cut.steps_before(spec.total_epochs)
        self._where = functools.lru_cache(maxsize=256)(self._find_deck)

    def steps(self, epoch: int) -> int:
        """Return the number of batches that an epoch delivers."""
        return self.cut.steps(epoch)

    def progress(self, epoch: int, step: int) -> float | None:
        """Return the part of the training that is over before a step; None without a length.

        It is (steps before this one) / (steps of `total_epochs` epochs), rounded once, and 1 after
        that.
        """
        if self._total is None:
            return None
        return min(self.cut.steps_before(epoch) + step, self._total) / self._total

    def bucket(self, epoch: int, step: int) -> int | None:
        """Return the number of the bucket that a step delivers, None without buckets.

        Raises:
            UsageError: the epoch has no such step.
        """
        return None if self.plan is None else self.cut.turn(epoch, step).bucket

    def positions(self, epoch: int, step: int) -> int:
        """Return the number of positions in the global batch of a step."""
        return self.cut.positions(self.cut.turn(epoch, step).bucket)

    def rows(self, epoch: int, step: int, lo: int, hi: int) -> RowColumns:
        """Return the rows [lo, hi) of the global batch of a step.

        Raises:
            UsageError: the epoch has no such step, or the batch has no such rows.
        """
        cut, views = self.cut, self._views
        bucket, number = cut.turn(epoch, step)
        rows, size = self.rows_of[bucket], cut.positions(bucket)
        if not 0 <= lo <= hi <= size * views:
            raise UsageError(f"rows: expected 0 <= lo <= hi <= {size * views}, got {lo} and {hi}")
        first = lo // views
        if cut.tail == "carry":
            epoch, start = divmod(number * size + first, rows.rows)
        else:
            start = (number - cut.batches_before(bucket, epoch)) * size + first
        stop = start + -(-hi // views) - first
        if stop <= rows.rows or cut.tail == "carry":
            found = rows.lookup(epoch, start, stop)
        else:
            found = _padded(rows, epoch, start, stop)
        if views == 1:
            return RowColumns(*found, np.zeros(hi - lo, np.int64))
        offsets, view = np.divmod(np.arange(lo, hi, dtype=np.int64), views)
        found = DeckEntries(*(column[offsets - first] for column in found))
        return RowColumns(*found, view)

    def dataset_of(self, sample_id: int) -> int:
        """Return the number of the dataset that an id belongs to."""
        return bisect_right(self.firsts, sample_id, hi=len(self.firsts) - 1) - 1

    def substitute(self, epoch: int, position: int, bad_id: int, attempt: int) -> tuple[int, int]:
        """Return (id, visit) of the substitute for a bad row: of the same dataset and bucket.

        Args:
            epoch: of the bad row.
            position: of it, see `RowColumns`.
            bad_id: its id.
            attempt: 1 to 16.
        """
        return self._where(bad_id)[1].substitute(epoch, position, bad_id, attempt)

    def peers(self, epoch: int, step: int) -> int:
        """Return the number of samples that may join a row of a step in a mosaic."""
        return self.rows_of[self.cut.turn(epoch, step).bucket].samples

    def peer(self, epoch: int, step: int, number: int) -> int:
        """Return the id of one of these samples, by number from 0."""
        return self.rows_of[self.cut.turn(epoch, step).bucket].sample(number)

    def find(self, epoch: int, sample_id: int, visit: int = 0) -> Found:
        """Return where a row is delivered.

        Args:
            epoch: the one that it draws with.
            sample_id: its id.
            visit: how often the id came before in that epoch; for a substitute, see `Deck`.

        Raises:
            UsageError: there is no such row.
        """
        bucket, deck = self._where(sample_id)
        position = deck.find(epoch, sample_id, visit)
        rows, size, cut = self.rows_of[bucket], self.cut.positions(bucket), self.cut
        before = rows.number(deck, epoch, position)
        shown = None if self.plan is None else bucket
        if cut.tail == "carry":
            number = before // size
            epoch = ((number + 1) * size - 1) // rows.rows
        else:
            epoch, place = divmod(before, rows.rows)
            number = cut.batches_before(bucket, epoch) + place // size
            if number >= cut.batches_before(bucket, epoch + 1):
                return Found(shown, position, None)
        return Found(shown, position, (epoch, cut.step_of(epoch, Turn(bucket, number))))

    def _find_deck(self, sample_id: int) -> tuple[int, Deck]:
        """Return (bucket, deck) of a sample."""
        if not 0 <= sample_id < self.firsts[-1]:
            raise UsageError(f"expected an id from 0 to {self.firsts[-1] - 1}, got {sample_id}")
        for bucket, rows in enumerate(self.rows_of):
            if deck := rows.deck_of(sample_id):
                return bucket, deck
        raise UsageError(f"the stream leaves out sample {sample_id}, so no row has it")


def _padded(rows: Rows, epoch: int, start: int, stop: int) -> DeckEntries:
    """Return the entries [start, stop) of an epoch, with pad rows beyond its end."""
    end = max(start, min(stop, rows.rows))
    found = rows.lookup(epoch, start, end)
    more = np.arange(end, stop, dtype=np.int64)
    pads = DeckEntries(
        np.full(len(more), PAD_ID, np.int64), np.zeros_like(more),
        np.full(len(more), epoch, np.int64), more,
    )  # fmt: skip
    return DeckEntries(*map(np.concatenate, zip(found, pads, strict=True)))
