"""Progress callbacks. A crash is blamed on the last row and sample that were reported."""

from collections.abc import Sequence
from typing import Final

import numpy as np

ALL_ROWS: Final = -1
"""The row that is named while many are computed in one compiled call."""


class RowListener:
    """Receives the row and the sample that are computed next; this one ignores them.

    The calls come on the thread that computes, before the memory of the row or sample is touched.
    """

    row_by_row = False
    """True if every row must be computed by itself, so that each is named."""

    def rows_begin(self, outputs: Sequence[np.ndarray]) -> None:
        """Rows begin that are written to these arrays, one for each output."""

    def row_begins(self, row: int) -> None:
        """A row of the global batch begins, or `ALL_ROWS`."""

    def row_ends(self, row: int) -> None:
        """A row is written, or `ALL_ROWS`."""

    def sample_begins(self, sample_id: int) -> None:
        """A sample is read next; the samples of a chunk in one compiled call are not named."""

    def stage_begins(self, stage: int) -> None:
        """A stage of a row begins, by its number in `stage_clock.FIXED`."""

    def decode_begins(self) -> None:
        """An encoded value of a sample is decoded next, whole or a box of it."""
