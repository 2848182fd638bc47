"""Running statistics of rows, of one file or of all; two summaries can be merged.

Sums are integers, so the result depends on the rows only, not on how they were cut into files.
"""

import msgspec

from stoker.dataset.format.cells import Cell
from stoker.dataset.format.fields import Field
from stoker.dataset.format.manifest import DatasetStatistics, FieldStatistics, Note
from stoker.dataset.images.jpeg.grid import intervals_of_a_row

MAX_EXAMPLES = 20


class SideSummary(msgspec.Struct):
    """Smallest, largest and sum of one side, in pixels."""

    low: int = 2**62
    high: int = 0
    total: int = 0

    def add(self, value: int) -> None:
        """Count one value."""
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.total += value

    def merge(self, other: "SideSummary") -> None:
        """Add the values of another summary."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.total += other.total


class FieldSummary(msgspec.Struct):
    """Statistics of one field: bytes, sides, encodings, turned images, rows per class, range.

    For JPEGs also: how many have a grid, how many of those are cut by rows only, and the bytes of
    those before rewriting and with their grids.

    For a field that is not an image or mask, `height` counts the first side of its values.
    """

    data_bytes: int = 0
    height: SideSummary = msgspec.field(default_factory=SideSummary)
    width: SideSummary = msgspec.field(default_factory=SideSummary)
    encodings: dict[str, int] = {}
    turned: int = 0
    classes: dict[int, int] = {}
    gridded: int = 0
    by_rows: int = 0
    came_bytes: int = 0
    gridded_bytes: int = 0
    values: tuple[float, float] | None = None

    def add_values(self, low: float, high: float) -> None:
        """Count numbers from `low` to `high`, which are finite."""
        least, most = self.values or (low, high)
        self.values = min(least, low), max(most, high)

    def add_grid(self, cell: Cell) -> None:
        """Count the grid of a JPEG, if its field has grids and it has one."""
        for side in cell.sides:
            if isinstance(side, bytes) and side:
                self.gridded += 1
                self.by_rows += intervals_of_a_row(side) == 1
                self.came_bytes += cell.came_bytes
                self.gridded_bytes += len(cell.data) + len(side)

    def merge(self, other: "FieldSummary") -> None:
        """Add the counts of another summary."""
        self.data_bytes += other.data_bytes
        self.height.merge(other.height)
        self.width.merge(other.width)
        self.turned += other.turned
        self.gridded += other.gridded
        self.by_rows += other.by_rows
        self.came_bytes += other.came_bytes
        self.gridded_bytes += other.gridded_bytes
        if other.values is not None:
            self.add_values(*other.values)
        for name, count in other.encodings.items():
            self.encodings[name] = self.encodings.get(name, 0) + count
        for value, count in other.classes.items():
            self.classes[value] = self.classes.get(value, 0) + count


class Summary(msgspec.Struct):
    """Statistics of all fields, notes with examples, and bad rows as (files, reason)."""

    rows: int = 0
    fields: dict[str, FieldSummary] = {}
    notes: dict[str, tuple[int, list[str]]] = {}
    bad: int = 0
    bad_examples: list[tuple[str, str]] = []

    def note(self, what: str, source: str) -> None:
        """Count a note for the dataset's owner about one file."""
        count, examples = self.notes.get(what, (0, []))
        self.notes[what] = (count + 1, [*examples, source][:MAX_EXAMPLES])

    def add_bad(self, source: str, reason: str, limit: int) -> None:
        """Count a bad row; the first `limit` rows are listed."""
        self.bad += 1
        if len(self.bad_examples) < limit:
            self.bad_examples.append((source, reason))

    def merge(self, other: "Summary", limit: int) -> None:
        """Add the counts of another summary; the first `limit` bad rows are listed."""
        self.rows += other.rows
        for name, field in other.fields.items():
            self.fields.setdefault(name, FieldSummary()).merge(field)
        for what, (count, examples) in other.notes.items():
            mine, names = self.notes.get(what, (0, []))
            self.notes[what] = (mine + count, [*names, *examples][:MAX_EXAMPLES])
        self.bad += other.bad
        self.bad_examples = [*self.bad_examples, *other.bad_examples][:limit]


def finish_field(field: Field, seen: FieldSummary) -> Field:
    """Complete a declared field from its rows: encoding, fixed sides, bound."""
    if field.is_picture:
        tail = tuple(side for side in field.shape[2:] if side is not None)
        sides = (seen.height, seen.width)
        shape = tuple(side.low if side.low == side.high else None for side in sides)
        encoding = field.encoding
        if encoding == "encoded" and len(seen.encodings) == 1:
            encoding = next(iter(seen.encodings))
        return msgspec.structs.replace(
            field,
            encoding=encoding,
            shape=(*shape, *tail),
            bound=(seen.height.high, seen.width.high, *tail),
        )
    if field.shape and field.shape[0] is None:
        inner = tuple(side for side in field.shape[1:] if side is not None)
        return msgspec.structs.replace(field, bound=(seen.height.high, *inner))
    return msgspec.structs.replace(field, bound=tuple(side or 0 for side in field.shape))


def statistics(fields: tuple[Field, ...], summary: Summary) -> DatasetStatistics:
    """Return the statistics for the manifest."""
    return DatasetStatistics(
        fields={
            field.name: _field(field, summary.fields[field.name], summary.rows) for field in fields
        },
        notes=tuple(
            Note(what, count, tuple(examples))
            for what, (count, examples) in sorted(summary.notes.items())
        ),
        skipped=summary.bad,
        skipped_examples=tuple(summary.bad_examples),
    )


def _field(field: Field, seen: FieldSummary, rows: int) -> FieldStatistics:
    def side(values: SideSummary) -> tuple[int, int, float] | None:
        if not field.is_picture:
            return None
        return values.low, values.high, values.total / rows

    per_class = None
    if field.classes is not None and not field.is_picture:
        per_class = tuple(seen.classes.get(value, 0) for value in range(len(field.classes)))
    return FieldStatistics(
        data_bytes=seen.data_bytes,
        height=side(seen.height),
        width=side(seen.width),
        turned=seen.turned,
        gridded=seen.gridded,
        by_rows=seen.by_rows,
        came_bytes=seen.came_bytes,
        gridded_bytes=seen.gridded_bytes,
        per_class=per_class,
        values=None if field.classes is not None else seen.values,
    )
