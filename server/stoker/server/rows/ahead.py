"""Reading ahead: the kernel learns which samples come next, while rows wait for storage.

The order of a stream is known, so a worker that begins a chunk asks for the same rows of the next
step: the worker that computes them finds them in the page cache. This costs some microseconds a
row, so it is done only while it helps: for `CHUNKS` chunks after one in which the process had to
wait for storage (a major fault). It changes no byte. Runs in workers, on one thread.
"""

import resource
from collections.abc import Callable, Sequence

import numpy as np

from stoker.dataset import Dataset

CHUNKS = 32


class ReadAhead:
    """Sends read-ahead hints for upcoming samples.

    Attributes:
        told: samples that were hinted.
    """

    def __init__(
        self, dataset: Dataset, fields: Sequence[str], faults: Callable[[], int] | None = None
    ) -> None:
        """Begin as if storage were slow.

        Args:
            dataset: where the samples lie.
            fields: those that are read.
            faults: how often this process waited for storage so far; None: as the kernel counts.
        """
        self._dataset = dataset
        self._fields = fields
        self._count = faults or _major_faults
        self._faults = -1
        self._left = 0
        self.told = 0

    def hint(self, upcoming: Callable[[], np.ndarray]) -> None:
        """A chunk begins; `upcoming` returns the ids of samples that will be read after it."""
        faults = self._count()
        if faults > self._faults:
            self._left = CHUNKS
        self._faults = faults
        if self._left:
            self._left -= 1
            ids = upcoming()
            self._dataset.will_need(self._fields, ids)
            self.told += len(ids)


def _major_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
