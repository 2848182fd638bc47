"""Batches: the rows of a step, and which of them a rank gets (contract order v1).

Step s of an epoch covers the positions [s*B, (s+1)*B). Row r of that global batch is position
s*B + r // views, view r % views; there are B * views rows. Positions at or beyond `epoch_rows`
are pad rows, which exist only with tail "pad". Rank k of R gets the rows
[floor(k*rows/R), floor((k+1)*rows/R)). Pure arithmetic, O(1) except for the returned arrays.
"""

from stoker.protocol.errors import UsageError
from stoker.protocol.spec import StreamSpec


def steps_per_epoch(spec: StreamSpec) -> int:
    """Return the number of batches that an epoch of a stream without buckets delivers.

    An epoch of a mixture has whole batches alone, of about as many rows as samples.

    Raises:
        UsageError: there is no full batch.
    """
    rows, size = spec.epoch_rows, spec.batch_size
    if spec.mix is not None and rows < size:
        raise UsageError(
            f"a global batch of {size} from the {rows} samples of all datasets of the mixture "
            "leaves no step: use a smaller batch size"
        )
    if spec.tail == "pad" and spec.mix is None:
        return -(-rows // size)
    if rows < size:
        raise UsageError(
            f"a global batch of {size} from {rows} samples leaves no step when the"
            " incomplete batch is dropped: use a smaller batch size, or drop_last=False"
        )
    return rows // size


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
