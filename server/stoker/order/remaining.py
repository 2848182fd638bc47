"""The samples that a stream visits: all of a dataset except an exclude list, by place.

Orders arrange places 0 to n - 1; the id at place p is the p-th of the remaining ids, ascending.
Without a list a place is an id. A list takes eight bytes per id, and a look-up its logarithm:
an excluded id x with i excluded ids before it has x - i places before it. If fewer samples remain
than are left out, those are kept instead, and the id at a place is read.
"""

import numpy as np
from numpy.typing import NDArray

from stoker.protocol.errors import UsageError
from stoker.protocol.exclude import Excluded
from stoker.protocol.spec import StreamSpec

Ids = NDArray[np.int64]


class Remaining:
    """Samples by their place among those that remain.

    Attributes:
        count: number of samples that remain.
    """

    def __init__(self, rows: int, excluded: Excluded | None = None) -> None:
        """Prepare.

        Args:
            rows: number of samples in the dataset.
            excluded: the samples that are left out; None: none.

        Raises:
            UsageError: the list belongs to another dataset, or leaves no sample.
        """
        self._rows = rows
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

    @staticmethod
    def of(spec: StreamSpec, excluded: Excluded | None = None) -> "Remaining":
        """Return the samples that a stream visits.

        Args:
            spec: the stream.
            excluded: the list whose digest is in the spec; None if it has none.

        Raises:
            UsageError: the spec was made with another list, or the list belongs to another dataset.
        """
        digest = None if excluded is None else excluded.digest
        if digest != spec.exclude:
            raise UsageError(
                f"expected exclude list {spec.exclude}, which the stream was made with, got "
                f"{digest}"
            )
        return Remaining(spec.dataset_rows, excluded)

    def ids(self, places: Ids) -> Ids:
        """Return the ids at places: (k,) int64 for (k,) int64."""
        if self._kept is not None:
            return self._kept[places]
        if self._gone is None:
            return places
        found: Ids = places + np.searchsorted(self._before, places, side="right")
        return found

    def id(self, place: int) -> int:
        """Return the id at a place."""
        if self._kept is not None:
            return int(self._kept[place])
        if self._gone is None:
            return place
        return place + int(np.searchsorted(self._before, place, side="right"))

    def place(self, sample_id: int) -> int:
        """Return the place of an id.

        Raises:
            UsageError: there is no such id, or it is left out.
        """
        if not 0 <= sample_id < self._rows:
            raise UsageError(f"expected an id from 0 to {self._rows - 1}, got {sample_id}")
        listed = self._gone if self._kept is None else self._kept
        if listed is None:
            return sample_id
        before = int(np.searchsorted(listed, sample_id))
        is_listed = before < len(listed) and listed[before] == sample_id
        if is_listed == (self._kept is None):
            raise UsageError(f"the stream leaves out sample {sample_id}, so no row has it")
        return sample_id - before if self._kept is None else before
