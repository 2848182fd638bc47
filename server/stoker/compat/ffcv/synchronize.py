"""`SynchronizeSeed`, which FFCV's issue 86 asked for: decisions that pipelines share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.compat.ffcv.pipeline.allocation_query import Allocation
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.protocol.errors import UsageError


class SynchronizeSeed(Operation):
    """Share the decisions of the operations after it with other pipelines.

    Put it into the lists of two or more fields, also in front of the decoder. The operations after
    it draw from streams that are named after it and their class, so operations of one class make
    one decision for all these fields. Operations that only one list has do not disturb the others.

    Args:
        seed_offset: number of the mark; marks with different numbers share nothing. None: the
            operations after it draw on their own.

    Raises:
        UsageError: seed_offset is neither an integer nor None.
    """

    def __init__(self, seed_offset: int | None = 0) -> None:
        if seed_offset is not None and type(seed_offset) is not int:
            raise UsageError(
                f"SynchronizeSeed: expected seed_offset to be an integer or None, got "
                f"{seed_offset!r}"
            )
        self.seed_offset = seed_offset

    def generate_code(self) -> Callable[..., Any]:
        """Return a function that changes nothing."""

        def unchanged(batch: Any, dst: Any) -> Any:
            return batch

        return unchanged

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the same state."""
        return previous_state, None
