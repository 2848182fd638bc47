"""The order of any stream: (epoch, step) -> the rows of a global batch.

Code that computes rows uses only a `StreamOrder`. `PlainOrder` is the order of a spec without
buckets, where step s covers the positions [s*B, (s+1)*B) of an epoch (`stoker.order.batches`);
`stoker.order.buckets` has the other one. Any thread may call.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.batches import progress, row_places, steps_per_epoch
from stoker.order.epoch import EpochOrder
from stoker.order.substitutes import position_of, substitute
from stoker.order.weights import Weighting
from stoker.protocol.exclude import Excluded
from stoker.protocol.spec import StreamSpec
from stoker.rng.row import Row, row_words

Ids = NDArray[np.int64]


class RowColumns(NamedTuple):
    """Rows of a global batch; each is `(n,) int64`.

    Attributes:
        ids: sample ids; -1 for pad rows.
        visits: how often the id came before in its epoch.
        epochs: the epoch that the row belongs to and draws with; with buckets it may be earlier
            than that of its batch.
        positions: place of the row in that epoch; with buckets, in its bucket's part of it.
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
    """Where a row is delivered.

    Attributes:
        bucket: number of its bucket, None without buckets.
        position: its position, see `RowColumns`.
        place: (epoch, step) of its batch; None if it is in none.
    """

    bucket: int | None
    position: int
    place: tuple[int, int] | None


class StreamOrder(Protocol):
    """The interface of an order."""

    def steps(self, epoch: int) -> int:
        """Return the number of batches that an epoch delivers."""
        ...

    def progress(self, epoch: int, step: int) -> float | None:
        """Return the part of the training that is over before a step; None without a length."""
        ...

    def bucket(self, epoch: int, step: int) -> int | None:
        """Return the number of the bucket that a step delivers, None without buckets."""
        ...

    def positions(self, epoch: int, step: int) -> int:
        """Return the number of positions in the global batch of a step."""
        ...

    def rows(self, epoch: int, step: int, lo: int, hi: int) -> RowColumns:
        """Return the rows [lo, hi) of the global batch of a step.

        Raises:
            UsageError: the epoch has no such step, or the batch has no such rows.
        """
        ...

    def substitute(self, epoch: int, position: int, bad_id: int, attempt: int) -> tuple[int, int]:
        """Return (id, visit) of the substitute for a bad row, `attempt` from 1 to 16."""
        ...

    def peers(self, epoch: int, step: int) -> int:
        """Return the number of samples that may join a row of a step in a mosaic."""
        ...

    def peer(self, epoch: int, step: int, number: int) -> int:
        """Return the id of one of these samples, by number from 0."""
        ...

    def find(self, epoch: int, sample_id: int, visit: int = 0) -> Found:
        """Return where a row is delivered; `epoch` is the one that it draws with.

        Raises:
            UsageError: there is no such row.
        """
        ...


class PlainOrder:
    """The order of a spec without buckets; see `StreamOrder`."""

    def __init__(
        self,
        spec: StreamSpec,
        *,
        excluded: Excluded | None = None,
        weighting: Weighting | None = None,
        arithmetic: Arithmetic = PLAIN,
    ) -> None:
        """Make the order of a spec; see `stoker.order.epoch.EpochOrder`."""
        self._spec = spec
        self._order = EpochOrder(
            spec, excluded=excluded, weighting=weighting, arithmetic=arithmetic
        )

    def steps(self, epoch: int) -> int:
        """Return the number of batches that every epoch delivers."""
        return steps_per_epoch(self._spec)

    def progress(self, epoch: int, step: int) -> float | None:
        """Return the part of the training that is over before a step; None without a length."""
        return progress(self._spec, epoch, step)

    def bucket(self, epoch: int, step: int) -> int | None:
        """Return None."""
        return None

    def positions(self, epoch: int, step: int) -> int:
        """Return the number of positions in a global batch."""
        return self._spec.batch_size

    def rows(self, epoch: int, step: int, lo: int, hi: int) -> RowColumns:
        """Return the rows [lo, hi) of the global batch of a step.

        Raises:
            UsageError: the epoch has no such step, or the batch has no such rows.
        """
        places, views = row_places(self._spec, step, lo, hi)
        if not len(places):
            return RowColumns(places, places, places, places, views)
        first, last = int(places[0]), int(places[-1])
        ids, visits = self._order.lookup_range(epoch, first, last + 1)
        if self._spec.views > 1:
            picked = places - first
            ids, visits = ids[picked], visits[picked]
        return RowColumns(ids, visits, np.full_like(places, epoch), places, views)

    def substitute(self, epoch: int, position: int, bad_id: int, attempt: int) -> tuple[int, int]:
        """Return (id, visit) of the substitute for a bad row."""
        place, visit = substitute(self._spec, epoch, position, bad_id, attempt)
        return self._order.remaining.id(place), visit

    def peers(self, epoch: int, step: int) -> int:
        """Return the number of samples that an epoch may visit."""
        return self._order.rows

    def peer(self, epoch: int, step: int, number: int) -> int:
        """Return the id of one of these samples, by number."""
        return self._order.remaining.id(number)

    def find(self, epoch: int, sample_id: int, visit: int = 0) -> Found:
        """Return where a row is delivered.

        Raises:
            UsageError: there is no such row.
        """
        self._order.remaining.place(sample_id)
        position = position_of(self._spec, visit)
        if position is None:
            position = self._order.find(epoch, sample_id, visit)
        step = position // self._spec.batch_size
        return Found(None, position, (epoch, step))
