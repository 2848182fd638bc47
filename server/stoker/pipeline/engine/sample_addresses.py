"""The addresses of a chunk's samples, which the loop reads in place.

The loop uses addresses without checking them. Their provider has checked every sample
(`reading.uniform_fields`); this module compares the samples' types with those the plan was compiled
for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from stoker.pipeline.planning.plan import Plan
from stoker.protocol.errors import UsageError


class RowSamples(Protocol):
    """Samples of many rows.

    Attributes:
        addresses: (fields, n) int64; each of at least one contiguous, aligned sample of its field.
        columns: dtype and shape of the samples of each field.
        held: an object that keeps the memory alive.
    """

    @property
    def addresses(self) -> np.ndarray:
        """See above."""
        ...

    @property
    def columns(self) -> Sequence[tuple[np.dtype[Any], tuple[int, ...]]]:
        """See above."""
        ...

    @property
    def held(self) -> object:
        """See above."""
        ...


def check_samples(plan: Plan, samples: RowSamples, count: int) -> None:
    """Refuse samples that differ from what a plan reads.

    Raises:
        UsageError: names the field, what was expected and what came.
    """
    shape = len(plan.fields), count
    table = samples.addresses
    if table.dtype != np.int64 or table.shape != shape or not table.flags.c_contiguous:
        raise UsageError(
            f"samples: expected contiguous int64 addresses of shape {shape}, got {table.dtype} "
            f"{table.shape}"
        )
    fields = zip(plan.fields, plan.inputs, samples.columns, strict=True)
    for name, state, (dtype, sides) in fields:
        if state.items:
            raise UsageError(
                f"field {name!r}: {state.kind} differ in number from row to row; call run() for "
                "each row"
            )
        if dtype != state.dtype or len(sides) != len(state.shape):
            raise UsageError(f"field {name!r}: expected samples of {state}, got {dtype} {sides}")
    if not table.all():
        raise UsageError("samples: expected an address for every row, got 0")
