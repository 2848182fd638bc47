"""The last batch of an epoch, if it is incomplete: dropped, short or padded."""

import warnings
from typing import Final

from stoker.client.batches.batch import Batch, ReadMarks
from stoker.client.batches.short_batch import real_rows
from stoker.protocol.errors import UsageError
from stoker.protocol.request.argument_checks import flag

WAYS: Final = ("drop", "short", "pad")


def resolve_last(last: object, drop_last: object, world_size: int) -> str:
    """Return what becomes of an incomplete last batch.

    Raises:
        UsageError: `last` is none of `WAYS`, or contradicts `drop_last`.
    """
    drop_last = flag("drop_last", drop_last)
    if last is None:
        if drop_last:
            return "drop"
        return "short" if world_size == 1 else "pad"
    if not isinstance(last, str) or last not in WAYS:
        raise UsageError(f"last: expected one of {', '.join(map(repr, WAYS))}, got {last!r}")
    if last == "drop" and not drop_last:
        raise UsageError("last='drop' contradicts drop_last=False: leave drop_last out")
    return str(last)


class PaddingWarning:
    """Warns once if a loop uses padded rows as if they were samples.

    It keeps no batch: a batch that is kept occupies a slot.
    """

    def __init__(self) -> None:
        self._marks: ReadMarks | None = None
        self._what = ""
        self._warned = False

    def watch(self, batch: Batch, marks: ReadMarks) -> None:
        """Remember a batch that may be padded, and the record of which arrays the loop reads."""
        rows = len(batch.index)
        if self._warned or (real := real_rows(batch)) == rows:
            return
        self._marks = marks
        self._what = (
            f"the last batch of epoch {batch.epoch} is padded: {real} of {rows} rows are samples"
        )

    def check(self) -> None:
        """Warn if the loop did not read `valid` of the last padded batch.

        Called when another epoch begins, and when the loader is closed.
        """
        marks, self._marks = self._marks, None
        if marks is not None and not marks.is_valid_read:
            self._warned = True
            warnings.warn(
                f"{self._what}, but the loop did not read batch.valid. Leave the other rows out "
                "of losses and metrics, or pass last='drop'",
                stacklevel=4,
            )
