"""Batch memory that is used again once nobody holds an array on it.

An array that is handed out lives on a block of a pool; every view of it and every tensor made of
it keeps that array alive. When the last of them is gone, its block goes back. So memory is
touched for the first time only once, and a batch that a script keeps is never overwritten.
Any thread may take and give back.
"""

from __future__ import annotations

import collections
import math
import threading
import weakref
from typing import Any, Final

import numpy as np

MAX_FREE: Final = 8
"""Blocks of one size that are kept while nobody uses them."""


class Pool:
    """Hands out arrays."""

    def __init__(self) -> None:
        self._free: dict[int, collections.deque[bytearray]] = {}
        self._lock = threading.Lock()

    def take(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return an array of undefined contents."""
        kind = np.dtype(dtype)
        size = max(math.prod(shape) * kind.itemsize, 1)
        with self._lock:
            blocks = self._free.setdefault(size, collections.deque(maxlen=MAX_FREE))
            block = blocks.pop() if blocks else bytearray(size)
        array = np.ndarray(shape, kind, buffer=block)
        weakref.finalize(array, self._give_back, block).atexit = False
        return array

    def _give_back(self, block: bytearray) -> None:
        # Run by the collector, on any thread at any moment: append is atomic and takes no lock.
        self._free[len(block)].append(block)
