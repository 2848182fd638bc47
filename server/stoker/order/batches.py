"""Batches: the rows of a step, and which of them a rank gets (contract order v1).

Step s of an epoch covers the positions [s*B, (s+1)*B). Row r of that global batch is position
s*B + r // views, view r % views; there are B * views rows. Positions at or beyond `epoch_rows`
are pad rows, which exist only with tail "pad". Rank k of R gets the rows
[floor(k*rows/R), floor((k+1)*rows/R)). Pure arithmetic, O(1) except for the returned arrays.
"""

import numpy as np
from numpy.typing import NDArray

from stoker.protocol.errors import UsageError
from stoker.protocol.spec import StreamSpec


def steps_per_epoch(spec: StreamSpec) -> int:
    """Return the number of batches that an epoch delivers.

    Raises:
        UsageError: tail "drop" leaves no batch.
    """
    rows, size = spec.epoch_rows, spec.batch_size
    if spec.tail == "pad":
        return -(-rows // size)
    if rows < size:
        raise UsageError(
            f"a global batch of {size} from {rows} samples leaves no step when the"
            " incomplete batch is dropped: use a smaller batch size, or drop_last=False"
        )
    return rows // size


def progress(spec: StreamSpec, epoch: int, step: int) -> float | None:
    """Return the part of the training that is over before a step, in [0, 1]; None without a length.

    It is (steps before this one) / (steps of `total_epochs` epochs), rounded once, and 1 after
    that.
    """
    if spec.total_epochs is None:
        return None
    steps = steps_per_epoch(spec)
    whole = spec.total_epochs * steps
    return min(epoch * steps + step, whole) / whole


def positions(spec: StreamSpec, step: int) -> tuple[int, int]:
    """Return (start, stop), the positions of a step, including pad positions.

    Raises:
        UsageError: the epoch has no such step.
    """
    steps = steps_per_epoch(spec)
    if not 0 <= step < steps:
        raise UsageError(f"step: expected one from 0 to {steps - 1}, got {step}")
    return step * spec.batch_size, (step + 1) * spec.batch_size


def rows_per_batch(spec: StreamSpec) -> int:
    """Return the number of rows in a global batch: B * views."""
    return spec.batch_size * spec.views


def rank_rows(rows: int, rank: int, world_size: int) -> tuple[int, int]:
    """Return (lo, hi), the rows of a global batch that a rank gets.

    Raises:
        UsageError: the rank is not in [0, world_size).
    """
    if not 0 <= rank < world_size:
        raise UsageError(
            f"rank: expected one from 0 to world_size - 1 = {world_size - 1}, got {rank}"
        )
    return rank * rows // world_size, (rank + 1) * rows // world_size


def row_places(
    spec: StreamSpec, step: int, lo: int, hi: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the rows [lo, hi) of a global batch.

    Returns:
        (positions, views), each (hi - lo,) int64.

    Raises:
        UsageError: the epoch has no such step, or the batch has no such rows.
    """
    start, _ = positions(spec, step)
    rows = rows_per_batch(spec)
    if not 0 <= lo <= hi <= rows:
        raise UsageError(f"rows: expected 0 <= lo <= hi <= {rows}, got {lo} and {hi}")
    if spec.views == 1:
        return np.arange(start + lo, start + hi), np.zeros(hi - lo, np.int64)
    offset, view = np.divmod(np.arange(lo, hi, dtype=np.int64), spec.views)
    return start + offset, view
