"""The last batch of an epoch, if it is incomplete: dropped, short or padded."""

import warnings
from typing import Final

from stoker.client.batch import Batch
from stoker.client.short import real_rows
from stoker.protocol.errors import UsageError

WAYS: Final = ("drop", "short", "pad")


def resolve_last(last: object, drop_last: object, world_size: int) -> str:
    """Return what becomes of an incomplete last batch.

    Raises:
        UsageError: `last` is none of `WAYS`, contradicts `drop_last`, or is "short" on several
            ranks, which would end their epochs with different numbers of rows.
    """
    if last is None:
        if drop_last:
            return "drop"
        return "short" if world_size == 1 else "pad"
    if last not in WAYS:
        raise UsageError(f"last: expected one of {', '.join(map(repr, WAYS))}, got {last!r}")
    if last == "drop" and not drop_last:
        raise UsageError("last='drop' contradicts drop_last=False: leave drop_last out")
    if last == "short" and world_size > 1:
        raise UsageError(
            f"last='short' is for one rank, but world_size is {world_size}: ranks need batches of "
            "one size; use last='pad' and count the rows that are batch.valid"
        )
    return str(last)


class Padding:
    """Warns once if a loop uses padded rows as if they were samples."""

    def __init__(self) -> None:
        self._batch: Batch | None = None
        self._warned = False

    def watch(self, batch: Batch) -> None:
        """Note a batch that may be padded."""
        if not self._warned:
            self._batch = batch

    def check(self) -> None:
        """Warn if the batch that was noted is padded, and nobody asked which rows are valid.

        Called when the loop asks for the next batch.
        """
        batch, self._batch = self._batch, None
        if batch is None or batch.valid_was_read or real_rows(batch) == len(batch.index):
            return
        self._warned = True
        warnings.warn(
            f"the last batch of epoch {batch.epoch} is padded: {real_rows(batch)} of "
            f"{len(batch.index)} rows are samples, but the loop did not read batch.valid. Leave "
            "the other rows out of losses and metrics, or pass last='drop'",
            stacklevel=4,
        )
