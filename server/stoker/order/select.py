"""The node "select": which samples a deck has, by place.

Decks arrange places 0 to n - 1; the id at place p is the p-th of the selected ids, ascending. Two
classes answer: `Remaining`, a dataset without an exclude list, and `Listed`, the ids of a bucket.

Without an exclude list a place is an id. A list takes eight bytes per id, and a look-up its
logarithm: an excluded id x with i excluded ids before it has x - i places before it. If fewer
samples remain than are left out, those are kept instead, and the id at a place is read.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stoker.protocol.exclude import Excluded

Ids = NDArray[np.int64]


class Select(Protocol):
    """Some samples, by place.

    Attributes:
        count: how many.
    """

    count: int

    def ids(self, places: Ids) -> Ids:
        """Return the ids at places: (k,) int64 for (k,) int64."""
        ...

    def place(self, sample_id: int) -> int | None:
        """Return the place of an id; None if it is not among these samples."""
        ...


class Remaining:
    """The samples of a dataset that remain without an exclude list.

    Attributes:
        count: how many.
    """

    def __init__(self, rows: int, excluded: Excluded | None = None, first_id: int = 0) -> None:
        """Prepare.

        Args:
            rows: number of samples in the dataset.
            excluded: the samples that are left out, as ids from 0; None: none.
            first_id: the stream's id of sample 0; not 0 in mixtures.

        Raises:
            UsageError: the list belongs to another dataset, or leaves no sample.
        """
        self._rows = rows
        self._first = first_id
        self._gone: Ids | None = None
        self._kept: Ids | None = None
        self.count = rows - len(excluded or ())
        if excluded:
            excluded.check(rows)
            if len(excluded) > self.count:
                self._kept = np.delete(np.arange(rows), excluded.ids)
            else:
                self._gone = excluded.ids
                self._before = self._gone - np.arange(len(self._gone))

    def ids(self, places: Ids) -> Ids:
        """Return the ids at places: (k,) int64 for (k,) int64."""
        found = places
        if self._kept is not None:
            found = self._kept[places]
        elif self._gone is not None:
            found = places + np.searchsorted(self._before, places, side="right")
        return found + self._first if self._first else found

    def id(self, place: int) -> int:
        """Return the id at a place."""
        return int(self.ids(np.array([place]))[0])

    def places(self, ids: Ids) -> Ids:
        """Return the places of ids that remain: (k,) int64 for (k,) int64."""
        numbers = ids - self._first
        if self._kept is not None:
            return np.searchsorted(self._kept, numbers)
        if self._gone is None:
            return numbers
        found: Ids = numbers - np.searchsorted(self._gone, numbers)
        return found

    def place(self, sample_id: int) -> int | None:
        """Return the place of an id; None if the dataset has no such id, or it is left out."""
        number = sample_id - self._first
        if not 0 <= number < self._rows:
            return None
        listed = self._gone if self._kept is None else self._kept
        if listed is None:
            return number
        before = int(np.searchsorted(listed, number))
        is_listed = before < len(listed) and listed[before] == number
        if is_listed == (self._kept is None):
            return None
        return number - before if self._kept is None else before


class Listed:
    """The samples of a list.

    Attributes:
        count: how many.
    """

    def __init__(self, ids: NDArray[np.integer[Any]]) -> None:
        """Keep the list: (count,) integers, ascending."""
        self.count = len(ids)
        self._ids = ids

    def ids(self, places: Ids) -> Ids:
        """Return the ids at places: (k,) int64 for (k,) int64."""
        return self._ids[places].astype(np.int64)

    def place(self, sample_id: int) -> int | None:
        """Return the place of an id; None if the list does not have it."""
        place = int(np.searchsorted(self._ids, sample_id))
        return place if place < self.count and self._ids[place] == sample_id else None
