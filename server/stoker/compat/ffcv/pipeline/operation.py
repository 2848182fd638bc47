"""The base of FFCV's operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from stoker.compat.ffcv.pipeline.allocation_query import Allocation, AllocationQuery
from stoker.compat.ffcv.pipeline.state import State

__all__ = ["AllocationQuery", "Operation"]


class Operation(ABC):
    """One step of a field's pipeline.

    The function that `generate_code` returns is called as `function(batch, dst)`, or as
    `function(batch, dst, indices)` if it has a true attribute `with_indices`; `indices` are the
    sample ids. With a true attribute `is_parallel` it is compiled for many cores.

    Class attributes:
        is_batch_op: whether the function reads rows of the batch other than the one it writes, so
            that it needs all of them at once; None: a trial finds out when the loader is built.
        stream: name of the stream that it draws from, in every pipeline, so operations with one
            name make the same decisions; None: a stream of its own.
    """

    is_batch_op: ClassVar[bool | None] = None
    stream: ClassVar[str | None] = None

    @abstractmethod
    def generate_code(self) -> Callable[..., Any]:
        """Return the function that processes a batch."""

    @abstractmethod
    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the state after the operation, and the memory that it needs."""
