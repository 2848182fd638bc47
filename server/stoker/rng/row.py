"""The identity of a row, and the four words that all its draws depend on.

The words are (seed, sample id, epoch, visit * 2**16 + view), see docs/contracts/randomness.md. Only
this module packs and unpacks them; the compiled loop uses the constants below.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

WORDS: Final = 4
VISIT_SHIFT: Final = 16
"""The visit is in the bits above these of the last word, the view in these."""
VIEW_MASK: Final = (1 << VISIT_SHIFT) - 1
_WORDS = struct.Struct("=4Q")


class Row(NamedTuple):
    """The identity of a row: everything it depends on, besides the plan and the stream names.

    Draws depend on the first five fields only.

    Attributes:
        seed: seed of the stream, unsigned 64 bits.
        id: sample id.
        epoch: epoch, from 0.
        visit: how often the id came before in this epoch.
        view: view of the position.
        step: step in the epoch; None if there is no stream.
        progress: how much of the training is over, in [0, 1]; None if its length is unknown.
    """

    seed: int
    id: int
    epoch: int
    visit: int = 0
    view: int = 0
    step: int | None = None
    progress: float | None = None


def write_row(words: np.ndarray, row: Row) -> None:
    """Write the words of a row to (4,) uint64."""
    lane = row.visit << VISIT_SHIFT | row.view
    _WORDS.pack_into(words.data, 0, row.seed, row.id, row.epoch, lane)


def row_words(
    seed: int, ids: np.ndarray, epochs: np.ndarray, visits: np.ndarray, views: np.ndarray
) -> np.ndarray:
    """Return the words of many rows, (n, 4) uint64, from columns of (n,) int64."""
    words = np.empty((len(ids), WORDS), np.uint64)
    words[:, 0], words[:, 1], words[:, 2] = seed, ids, epochs
    words[:, 3] = visits << VISIT_SHIFT | views
    return words


def row_of(
    words: Sequence[int] | np.ndarray, step: int | None = None, progress: float | None = None
) -> Row:
    """Return the row of four words; `step` and `progress` are not part of them."""
    seed, sample, epoch, lane = (int(word) for word in words)
    return Row(seed, sample, epoch, lane >> VISIT_SHIFT, lane & VIEW_MASK, step, progress)


def row_table(rows: Sequence[Row]) -> np.ndarray:
    """Return the words of a list of rows, (n, 4) uint64."""
    table = np.zeros((len(rows), WORDS), np.uint64)
    for words, row in zip(table, rows, strict=True):
        write_row(words, row)
    return table
