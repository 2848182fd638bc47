"""Small records about the rows of a step: where one belongs, and what happened to many."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from stoker.server.work.records import MAX_BAD_TOLD, BadSample

ALL_ROWS = -1
"""Told as the row that is computed where many are at a time."""


@dataclass(frozen=True)
class Place:
    """Where a row belongs in its stream.

    Attributes:
        epoch: from 0.
        position: in the epoch.
        view: of the position.
        step: in the epoch.
        progress: how much of the training is over, in [0, 1]; None where its length is unknown.
    """

    epoch: int
    position: int
    view: int
    step: int
    progress: float | None


@dataclass
class RowCounts:
    """What happened while rows were filled.

    Attributes:
        shapes: shape of a row in this batch, of each output that `is_told`.
    """

    rows: int = 0
    home_rows: int = 0
    replaced_rows: int = 0
    invalid_rows: int = 0
    shapes: tuple[tuple[int, ...], ...] = ()
    bad: list[BadSample] = field(default_factory=list)

    def note_bad(self, samples: Iterable[BadSample]) -> None:
        """Remember bad samples, up to what is told."""
        self.bad = [*self.bad, *samples][:MAX_BAD_TOLD]
