"""Batch memory that is reused once no array on it is left.

An array from the pool is on one of its blocks; every view of it and every tensor made from it keeps
that array alive. When the last of them is gone, its block returns to the pool. So each page of
memory is touched for the first time only once, and a batch that a script keeps is never
overwritten. Any thread may take and return blocks.
"""

from __future__ import annotations

import collections
import math
import threading
import weakref
from typing import Any, Final

import numpy as np

MAX_FREE: Final = 8
"""Maximum number of unused blocks that are kept per size."""


class ArrayPool:
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
        # The garbage collector may run this in any thread at any time: append needs no lock.
        self._free[len(block)].append(block)
