"""A slab in a worker's memory, whose pages are mapped many at a time before they are written.

The daemon has allocated the memory, but each process maps a page when it first touches it, which
costs a fault. Mapping all pages of a chunk in one call costs half of that. Only pages that will be
written completely are mapped, because the rest of a slab may have no memory yet, and mapping would
allocate it.

Belongs to one worker. Linux before 5.14 cannot do this, so its pages are mapped by faults.
"""

import mmap
from collections.abc import Iterable
from typing import Final

import numpy as np

POPULATE_WRITE: Final = 23
"""MADV_POPULATE_WRITE, which Python's `mmap` does not name."""
LEAST_BYTES: Final = 2**16
"""Smaller ranges are left to faults, because the call would cost as much."""


class SlabPages:
    """The map of one slab; it ends with the last array on it.

    Attributes:
        memory: (size_bytes,) uint8, writable.
    """

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        """Map a slab; the descriptor stays the caller's."""
        self._map = mmap.mmap(descriptor, size_bytes)
        self.memory = np.frombuffer(self._map, np.uint8)
        self._start = _address(self.memory)
        self._mapped = np.zeros(size_bytes // mmap.PAGESIZE, bool)
        self._is_possible = True

    def prepare(self, arrays: Iterable[np.ndarray]) -> None:
        """Map the pages of arrays on this slab that will be written; those mapped cost nothing."""
        for array in arrays:
            if array.nbytes >= LEAST_BYTES and self._is_possible:
                start = _address(array) - self._start
                first, stop = -(-start // mmap.PAGESIZE), (start + array.nbytes) // mmap.PAGESIZE
                mapped = self._mapped[first:stop]
                if not mapped.all():
                    self._populate(first, stop)
                    mapped[:] = True

    def _populate(self, first: int, stop: int) -> None:
        """Map pages; without effect where the kernel cannot, since faults will map them."""
        try:
            self._map.madvise(POPULATE_WRITE, first * mmap.PAGESIZE, (stop - first) * mmap.PAGESIZE)
        except OSError:
            self._is_possible = False


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
