"""A deck: the samples of one dataset, or of one bucket of it, epoch after epoch.

Three nodes make one: select (which samples), repeat (how often each comes), shuffle (in which
order). Every epoch of a deck has as many rows, and its epochs are joined end to end; what lies
beyond the end of one is the beginning of the next. A stream cuts its batches from decks, or from
mixtures of decks (`stoker.order.mix`), which answer the same questions. Any thread may call.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stoker.order.repeat import Weighting
from stoker.order.select import Select
from stoker.order.shuffle import Shuffle
from stoker.order.substitutes import WEIGHTED_VISIT, substitute_place
from stoker.protocol.errors import UsageError

Ids = NDArray[np.int64]


class DeckEntries(NamedTuple):
    """The content of a deck at some positions; each is `(n,) int64`.

    Attributes:
        ids: sample ids.
        visits: how often the id came before in its epoch.
        epochs: of the deck.
        positions: in the epoch.
    """

    ids: Ids
    visits: Ids
    epochs: Ids
    positions: Ids


class Rows(Protocol):
    """The rows that batches are cut from: a deck, or a mixture of decks.

    Attributes:
        rows: how many each epoch has.
        samples: how many samples they are of.
    """

    rows: int
    samples: int

    def lookup(self, epoch: int, start: int, stop: int) -> DeckEntries:
        """Return the entries [start, stop), counted from the begin of an epoch, and beyond it."""
        ...

    def deck_of(self, sample_id: int) -> "Deck | None":
        """Return the deck of a sample; None if it is in none."""
        ...

    def number(self, deck: "Deck", epoch: int, position: int) -> int:
        """Return how many rows come before one of a deck, counted from the begin of epoch 0."""
        ...

    def sample(self, number: int) -> int:
        """Return the id of a sample, by number from 0."""
        ...


class Deck:
    """Selected samples, repeated by weight and shuffled; see `Rows`.

    Attributes:
        rows: how many each epoch has: as many as samples; with weights, as marks.
        samples: how many different samples it has.
        first_visit: visits from this one on are those of substitutes, for the positions from 0.
    """

    def __init__(
        self,
        seed: int,
        select: Select,
        weighting: Weighting | None = None,
        shuffle: Shuffle | None = None,
    ) -> None:
        """Compose a deck.

        Args:
            seed: of the order.
            select: its samples.
            weighting: how often they come; None: once in each epoch.
            shuffle: of the samples, or of the marks of weights; None: they are in ascending order.
        """
        self.samples = select.count
        self.rows = select.count if weighting is None else weighting.marks
        self.first_visit = 1 if weighting is None else WEIGHTED_VISIT
        self._seed, self._select = seed, select
        self._weighting, self._shuffle = weighting, shuffle

    def lookup(self, epoch: int, start: int, stop: int) -> DeckEntries:
        """Return the entries [start, stop); see `Rows`.

        Raises:
            UsageError: the epoch is negative.
        """
        if epoch < 0:
            raise UsageError(f"epoch: expected one from 0, got {epoch}")
        if stop <= self.rows or start == stop:
            return self._in_epoch(epoch, start, stop)
        parts = []
        while start < stop:
            more, start = divmod(start, self.rows)
            epoch, stop = epoch + more, stop - more * self.rows
            parts.append(self._in_epoch(epoch, start, min(stop, self.rows)))
            start = min(stop, self.rows)
        return DeckEntries(*map(np.concatenate, zip(*parts, strict=True)))

    def find(self, epoch: int, sample_id: int, visit: int = 0) -> int:
        """Return the position of a visit of an id, or of the row that a substitute is for.

        Raises:
            UsageError: no row has the id, it does not come so often, or the epoch is negative.
        """
        place = self._select.place(sample_id)
        if place is None:
            raise UsageError(f"the stream leaves out sample {sample_id}, so no row has it")
        if epoch < 0:
            raise UsageError(f"epoch: expected one from 0, got {epoch}")
        if visit >= self.first_visit:
            if visit - self.first_visit >= self.rows:
                last = self.first_visit + self.rows - 1
                raise UsageError(
                    f"sample {sample_id}: expected a visit of at most {last}, since an epoch has "
                    f"{self.rows} rows like it, got {visit}"
                )
            return visit - self.first_visit
        mark: int | None = place
        if self._weighting is not None:
            mark = self._weighting.mark(self._seed, epoch, place, visit)
            if mark is None:
                count = self._weighting.count_of(self._seed, epoch, place)
                raise UsageError(
                    f"sample {sample_id}: expected a visit below {count}, got {visit}: it comes "
                    f"{count} times in epoch {epoch}"
                )
        assert mark is not None
        return mark if self._shuffle is None else self._shuffle.position(epoch, mark)

    def substitute(self, epoch: int, position: int, bad_id: int, attempt: int) -> tuple[int, int]:
        """Return (id, visit) of the substitute for a bad row, `attempt` from 1 to 16."""
        place = substitute_place(self._seed, epoch, position, bad_id, attempt, self.samples)
        return self.sample(place), position + self.first_visit

    def deck_of(self, sample_id: int) -> "Deck | None":
        """Return this deck if it has a sample; see `Rows`."""
        return None if self._select.place(sample_id) is None else self

    def number(self, deck: "Deck", epoch: int, position: int) -> int:
        """Return how many rows come before; see `Rows`."""
        return epoch * self.rows + position

    def sample(self, number: int) -> int:
        """Return the id of a sample, by number from 0."""
        return int(self._select.ids(np.array([number], np.int64))[0])

    def _in_epoch(self, epoch: int, start: int, stop: int) -> DeckEntries:
        positions = np.arange(start, stop, dtype=np.int64)
        places, visits = positions, np.zeros(len(positions), np.int64)
        if self._shuffle is not None:
            places = self._shuffle.places(epoch, positions)
        if self._weighting is not None:
            places, visits = self._weighting.at(self._seed, epoch, places)
        ids = self._select.ids(places)
        return DeckEntries(ids, visits, np.full(len(ids), epoch, np.int64), positions)
