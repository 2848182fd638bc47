"""Writing one Arrow file of a dataset, row by row, in bounded memory.

Columns grow separately, but an Arrow file holds them consecutively; so the data of columns is
spooled to unnamed temporary files, which vanish with the process. `finish` writes the file under a
temporary name, hashing at the same time, flushes it, and renames it to a name that begins with its
number and its hash: a file with such a name is complete.
"""

import hashlib
import os
import struct
import tempfile
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import msgspec
import numpy as np
from msgspec import UNSET

from stoker.dataset.format.arrow import ALIGN, ITEM_BYTES, ColumnType, parse_type, plan_file
from stoker.dataset.format.cells import Cell
from stoker.dataset.format.fields import CHECK, DIGEST, ROW_COLUMNS, SOURCE, Field, Schema
from stoker.dataset.format.fingerprint import row_digest
from stoker.dataset.format.manifest import ColumnPlace, DataFile, Extent, sync_folder
from stoker.dataset.format.row_check import row_check
from stoker.dataset.format.summary import FieldSummary, Summary
from stoker.protocol.ragged import unpack_items

_SPOOL_BYTES = 4 * 2**20
_PIECE = 2**20


class ShardRecord(msgspec.Struct, frozen=True):
    """A finished file (None if no row was good), and the summary of its rows."""

    file: DataFile | None
    summary: Summary


class _Spool:
    """A column being collected: its data, and offsets in elements if items differ in length."""

    def __init__(self, kind: ColumnType, folder: Path) -> None:
        self.kind = kind
        self.data: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - closed by the writer
            _SPOOL_BYTES, dir=str(folder)
        )
        self.offsets = array("q", [0])
        self.data_bytes = 0

    def add(self, data: bytes | memoryview) -> None:
        self.data.write(data)
        self.data_bytes += len(data)
        if self.kind.layout == "variable":
            self.offsets.append(self.data_bytes // ITEM_BYTES[self.kind.dtype])


class ShardWriter:
    """Collects rows and writes them as one Arrow file; use as a context manager."""

    def __init__(self, folder: Path, work: Path, schema: Schema, limit: int) -> None:
        """Open the spools.

        Args:
            folder: where the finished file goes.
            work: where temporary files go, on the same file system.
            schema: columns to write.
            limit: how many bad rows are listed in the summary.
        """
        self._folder = folder
        self._work = work
        self._schema = schema
        self._limit = limit
        self._spools = {name: _Spool(parse_type(text), work) for name, text in schema.columns()}
        self.summary = Summary(fields={field.name: FieldSummary() for field in schema.fields})
        self.data_bytes = 0
        self._row: dict[str, bytes | memoryview] = {}

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for spool in self._spools.values():
            spool.data.close()

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return self.summary.rows

    def add(self, cells: Mapping[str, Cell], source: str) -> None:
        """Add a row."""
        self._row.clear()
        for field in self._schema.fields:
            self._put_field(field, cells[field.name], source)
        for side in self._schema.side:
            if side.name == DIGEST:
                self._put(DIGEST, row_digest([cells[f.name] for f in self._schema.fields]))
            elif side.name == CHECK:
                self._put(CHECK, self._check())
            elif side.name == SOURCE:
                self._put(SOURCE, source.encode(errors="surrogateescape"))
        self.summary.rows += 1

    def add_hashed(
        self, cells: Mapping[str, Cell], digest: bytes, check: bytes, source: str
    ) -> None:
        """Add some fields of a row; its digest and its check cover further fields."""
        for field in self._schema.fields:
            self._put_field(field, cells[field.name], source)
        for side in self._schema.side:
            self._put(side.name, digest if side.name == DIGEST else check)
        self.summary.rows += 1

    def add_bad(self, source: str, reason: str) -> None:
        """Count a row that cannot be stored."""
        self.summary.add_bad(source, reason, self._limit)

    def finish(self, index: int) -> ShardRecord:
        """Write the file durably and return its record; without rows there is no file."""
        if self.rows == 0:
            return ShardRecord(None, self.summary)
        columns = [(name, s.kind, s.data_bytes) for name, s in self._spools.items()]
        plan = plan_file(columns, self.rows)
        temporary = self._work / f"{index:05d}.{os.getpid()}.partial"
        digest = hashlib.blake2b(digest_size=16)
        try:
            with open(temporary, "wb") as file:

                def put(data: bytes | memoryview) -> None:
                    file.write(data)
                    digest.update(data)

                put(plan.head)
                for spool in self._spools.values():
                    _write_column(spool, put)
                put(plan.tail)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)  # on a full disk it takes the room of the next try
            raise
        name = f"{index:05d}-{digest.hexdigest()[:8]}.arrow"
        os.replace(temporary, self._folder / name)
        sync_folder(self._folder)
        places = {
            column: ColumnPlace(
                Extent(*place.data), Extent(*place.offsets) if place.offsets else None
            )
            for column, place in zip(self._spools, plan.places, strict=True)
        }
        record = DataFile(name=name, first_row=0, rows=self.rows, size_bytes=plan.size_bytes,
                          digest=digest.hexdigest(), columns=places)  # fmt: skip
        return ShardRecord(record, self.summary)

    def _put_field(self, field: Field, cell: Cell, source: str) -> None:
        for column, data in stored_columns(field, cell).items():
            self._put(column, data)
        for note in cell.notes:
            self.summary.note(f"{field.name}: {note}", source)
        _count(self.summary.fields[field.name], field, cell)

    def _put(self, column: str, data: bytes | memoryview) -> None:
        self._spools[column].add(data)
        self.data_bytes += len(data)
        if column not in ROW_COLUMNS:
            self._row[column] = data

    def _check(self) -> bytes:
        """Return the check of the row that was put; see `format.row_check`."""
        variable = [n for n in self._row if self._spools[n].kind.layout == "variable"]
        return row_check([len(self._row[n]) for n in variable], list(self._row.values()))


def _write_column(spool: _Spool, put: Callable[[bytes | memoryview], None]) -> None:
    if spool.kind.layout == "variable":
        offsets = memoryview(spool.offsets).cast("B")
        put(offsets)
        put(bytes(-len(offsets) % ALIGN))
    spool.data.seek(0)
    while piece := spool.data.read(_PIECE):
        put(piece)
    put(bytes(-spool.data_bytes % ALIGN))


def stored_columns(field: Field, cell: Cell) -> dict[str, bytes | memoryview]:
    """Return what a cell puts into the column of its field, and into its side columns."""
    found: dict[str, bytes | memoryview] = {field.name: cell.data}
    for side, value in zip(field.side, cell.sides, strict=True):
        found[side.name] = _little(side.type, value)
    return found


def _little(kind: str, value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    return struct.pack("<i" if kind == "int32" else "<B", value)


def _count(seen: FieldSummary, field: Field, cell: Cell) -> None:
    seen.data_bytes += len(cell.data)
    seen.height.add(cell.items)
    seen.width.add(cell.width)
    if field.is_picture:
        seen.encodings[cell.encoding] = seen.encodings.get(cell.encoding, 0) + 1
        seen.turned += len(cell.sides) > 2 and cell.sides[2] != 1
        seen.add_grid(cell)
    for value in _classes(field, cell):
        seen.classes[value] = seen.classes.get(value, 0) + 1
        if field.kind == "label":
            seen.add_values(value, value)
    if field.kind == "image" and field.dtype == "float32" and field.referenced is UNSET:
        _count_floats(seen, cell)


def _count_floats(seen: FieldSummary, cell: Cell) -> None:
    """Count the numbers of an image of floats; those that are not finite do not count."""
    values = np.frombuffer(cell.data if cell.content is None else cell.content, "<f4")
    finite = values[np.isfinite(values)]
    if finite.size:
        seen.add_values(float(finite.min()), float(finite.max()))


def _classes(field: Field, cell: Cell) -> list[int]:
    """Return the classes in a value: of a label, or of each item."""
    if field.kind == "label":
        return [int.from_bytes(cell.data, "little", signed=True)]
    part = field.class_part
    if part is None or field.items is UNSET:
        return []
    words = np.frombuffer(cell.data, "<u4").reshape(cell.items, field.shape[1] or 0)
    numbers: list[int] = unpack_items(field.items.fields, words)[part.name].tolist()
    return numbers
