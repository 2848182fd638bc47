"""The memory that an operation works in: what it requests, and what its results need.

Memory comes from a pool, so it holds what was written there earlier. A result whose bytes depend
on that would differ from run to run. So scratch memory, whose form is not that of the result, is
always zeroed, and other memory is zeroed if a trial shows that the operation leaves parts of it
unwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stoker.compat.ffcv.array_pool import ArrayPool
from stoker.compat.ffcv.pipeline.allocation_query import AllocationQuery
from stoker.compat.ffcv.pipeline.state import State
from stoker.protocol.errors import BuildError


class WorkingMemory:
    """The memory of one operation on arrays.

    Attributes:
        fill: number that a trial fills memory with; None: nothing is filled.
        is_cleared: whether all memory is zeroed for each batch.
    """

    def __init__(self, queries: Sequence[AllocationQuery], after: State, *, several: bool) -> None:
        """Prepare the memory.

        Args:
            queries: what the operation requests.
            after: the state of its results.
            several: whether it gets a tuple, even of one array.

        Raises:
            BuildError: a request is for tensors.
        """
        self.fill: int | None = None
        self.is_cleared = False
        self._pool = ArrayPool()
        self._forms = [(tuple(query.shape), _of_arrays(query.dtype)) for query in queries]
        self._result = tuple(after.shape), stored(after.dtype)
        self._several = several

    @property
    def is_result(self) -> bool:
        """True if the one memory that is requested can hold the results."""
        return not self._several and self._forms == [self._result]

    def request(self, count: int) -> Any:
        """Return what the operation gets as `dst` for some rows: an array, or a tuple of them."""
        arrays = tuple(self._take(count, form) for form in self._forms)
        if self._several:
            return arrays
        return arrays[0] if arrays else np.empty((count, 0), np.uint8)

    def result(self, count: int) -> np.ndarray:
        """Return memory for the results of some rows."""
        shape, dtype = self._result
        return self._pool.take((count, *shape), dtype)

    def _take(self, count: int, form: tuple[tuple[int, ...], np.dtype[Any]]) -> np.ndarray:
        shape, dtype = form
        array = self._pool.take((count, *shape), dtype)
        is_scratch = self._several or form != self._result
        fill = 0 if self.is_cleared or is_scratch else self.fill
        if fill is not None:
            array.fill(fill)
        return array


def _of_arrays(dtype: Any) -> np.dtype[Any]:
    try:
        kind: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        raise BuildError(
            "AllocationQuery: expected a NumPy dtype, because the operation makes arrays, got "
            f"{dtype}: pass previous_state.dtype, or put the operation after ToTensor()"
        ) from None
    return kind


def stored(dtype: Any) -> np.dtype[Any]:
    """Return the dtype that machine code stores: uint16 for float16, which it cannot."""
    kind = np.dtype(dtype)
    return np.dtype(np.uint16) if kind == np.float16 else kind
