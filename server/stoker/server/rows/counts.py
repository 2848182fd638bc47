"""Counts of events while rows of a step were filled."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from stoker.server.work.work_records import MAX_BAD_TOLD, BadSample


@dataclass
class RowCounts:
    """Counts of events while rows were filled.

    Attributes:
        rows: how many were filled.
        home_rows: rows of samples in the worker's home range.
        replaced_rows: rows that show a substitute.
        invalid_rows: rows that are masked.
        shapes: shape of a row in this batch, of each output that `is_told`.
        bad: bad samples that were met, at most `MAX_BAD_TOLD`.
        digests: those of the rows, if the stream is verified; see `stoker.protocol.row_digests`.
    """

    rows: int = 0
    home_rows: int = 0
    replaced_rows: int = 0
    invalid_rows: int = 0
    shapes: tuple[tuple[int, ...], ...] = ()
    bad: list[BadSample] = field(default_factory=list)
    digests: bytes = b""

    def note_bad(self, samples: Iterable[BadSample]) -> None:
        """Remember bad samples, up to `MAX_BAD_TOLD`."""
        self.bad = [*self.bad, *samples][:MAX_BAD_TOLD]

    def add_faults(self, other: "RowCounts") -> None:
        """Count what happened to one row among these."""
        self.replaced_rows += other.replaced_rows
        self.invalid_rows += other.invalid_rows
        self.note_bad(other.bad)
