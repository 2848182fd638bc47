"""Which row is computed: the words that every draw depends on."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

_WORDS = struct.Struct("=4Q")


class Row(NamedTuple):
    """Which row is computed: all that it depends on, besides the plan and the stream names.

    Draws depend on the first five alone.

    Attributes:
        seed: seed of the stream, unsigned 64 bits.
        id: sample id.
        epoch: epoch, from 0.
        visit: how often the id came before in this epoch.
        view: view of the position.
        step: step in the epoch; None where no stream is known.
        progress: how much of the training is over, in [0, 1]; None where its length is unknown.
    """

    seed: int
    id: int
    epoch: int
    visit: int = 0
    view: int = 0
    step: int | None = None
    progress: float | None = None


def write_row(words: np.ndarray, row: Row) -> None:
    """Write a row as the loop reads it, (4,) uint64: seed, id, epoch, visit * 2**16 + view."""
    _WORDS.pack_into(words.data, 0, row.seed, row.id, row.epoch, row.visit << 16 | row.view)
