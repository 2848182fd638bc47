"""The memory that an operation requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class AllocationQuery:
    """Memory per sample of a batch; an operation gets it as `dst`.

    Attributes:
        shape: sides of one sample.
        dtype: a NumPy dtype, or a torch dtype for a tensor.
        device: device of a tensor; None for a NumPy array.
    """

    shape: tuple[int, ...]
    dtype: Any
    device: Any = None


Allocation = AllocationQuery | Sequence[AllocationQuery] | None
