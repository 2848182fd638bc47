"""Reading a packed dataset: O(1), zero-copy, with nothing kept per sample.

`open_folder` reads and checks the manifest, and checks that the files exist; they are mapped when
they are first used (`reading.columns`). `read` returns read-only views of a map, which stay valid
after `close`. Imports no pyarrow, numba or torch.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import UNSET

from stoker.dataset.format.fields import CHECK, DIGEST, SOURCE, UPRIGHT, Field
from stoker.dataset.format.manifest import Manifest, StoredFile, earlier_name, read_manifest
from stoker.dataset.format.manifest_check import check_files, check_manifest
from stoker.dataset.format.row_check import checked_columns, row_check
from stoker.dataset.reading.columns import (
    ColumnFiles,
    FileRow,
    FixedColumn,
    ReferenceColumn,
    VariableColumn,
)
from stoker.dataset.reading.dataset_interface import Dataset, Head
from stoker.dataset.reading.mapping import will_need
from stoker.dataset.reading.source_files import SourceFiles
from stoker.dataset.reading.uniform_fields import UniformFields, is_uniform
from stoker.protocol.errors import DatasetError, SampleError, UsageError

MAX_MAPS = 256


class _Sides(NamedTuple):
    """Names of the side columns of an image or mask; "" if there is none."""

    height: str
    width: str
    orientation: str
    grid: str


def open_folder(
    folder: Path, max_maps: int = MAX_MAPS, expected: str | None = None
) -> "PackedDataset":
    """Open the dataset in a folder that holds a manifest.

    Args:
        folder: the folder that `stoker pack` wrote, or the index of a source read in place.
        max_maps: maximum number of files that are mapped at once.
        expected: a fingerprint; if the dataset had it once, and has grown since, it is opened as
            it was.

    Raises:
        DatasetError: it is missing or damaged.
        VersionError: it was packed by a newer Stoker.
    """
    manifest = read_manifest(folder)
    if expected not in (None, manifest.fingerprint):
        name = earlier_name(expected)
        if name and (folder / name).exists():
            manifest = read_manifest(folder, name)
    check_manifest(folder, manifest)
    check_files(folder, manifest)
    return PackedDataset(folder, manifest, max_maps)


class PackedDataset(Dataset):
    """Samples of packed files, or of the files of a source that an index refers to."""

    def __init__(self, path: Path, manifest: Manifest, max_maps: int) -> None:
        super().__init__(path, manifest)
        self._sources = _sources(manifest)
        self._files = ColumnFiles(path, manifest, max_maps, self._sources)
        self._last: tuple[int, FileRow] | None = None
        self._checked = checked_columns(manifest.schema)
        pictures = [field for field in manifest.schema.fields if field.is_picture]
        self._sides = {field.name: _sides(field) for field in pictures}
        self.has_checks = any(side.name == CHECK for side in manifest.schema.side)

    def close(self) -> None:
        """Drop the maps; see `Dataset.close`."""
        self._last = None
        self._files.close()
        if self._sources is not None:
            self._sources.close()

    def size(self, field: str, sample_id: int) -> tuple[int, int]:
        """See `Dataset.size`."""
        self._picture(field)
        row = self._row(sample_id)
        return row.number_of(f"{field}.height"), row.number_of(f"{field}.width")

    def sizes(self, field: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """See `Dataset.sizes`."""
        self._picture(field)
        for file in self.manifest.files:
            columns = self._files.row(file.first_row).columns
            wide, high = columns[f"{field}.width"], columns[f"{field}.height"]
            assert isinstance(wide, FixedColumn)
            assert isinstance(high, FixedColumn)
            yield wide.items, high.items

    def lengths(self, field: str) -> Iterator[np.ndarray]:
        """See `Dataset.lengths`."""
        spec = self._field(field)
        inner = math.prod(side or 1 for side in spec.shape[1:])
        if spec.is_picture or not (spec.shape or np.dtype(spec.dtype).kind in "iu"):
            raise UsageError(
                f"field {field!r} of dataset {self.path} ({spec.kind} {spec.dtype}) has no length: "
                "expected an array, bytes, boxes, keypoints, or an integer that is a length"
            )
        for file in self.manifest.files:
            column = self._files.row(file.first_row).columns[field]
            if isinstance(column, VariableColumn):
                ids = np.arange(file.first_row, file.first_row + file.rows)
                yield self._lengths(field, ids, column, np.arange(file.rows)) // inner
            elif isinstance(column, ReferenceColumn):
                yield column.sizes_bytes() // (np.dtype(spec.dtype).itemsize * inner)
            else:
                items = column.items
                yield np.full(len(items), spec.shape[0]) if spec.shape else items

    def numbers(self, field: str) -> Iterator[np.ndarray]:
        """See `Dataset.numbers`."""
        spec = self._field(field)
        if spec.is_picture or spec.kind == "bytes" or spec.shape:
            raise UsageError(
                f"field {field!r} of dataset {self.path} ({spec.kind} {spec.dtype}) is not one "
                "number per sample: expected a label or scalar"
            )
        for file in self.manifest.files:
            column = self._files.row(file.first_row).columns[field]
            assert isinstance(column, FixedColumn)
            yield column.items.astype(np.bool_) if spec.dtype == "bool" else column.items

    def orientation(self, field: str, sample_id: int) -> int:
        """See `Dataset.orientation`."""
        spec = self._picture(field)
        row = self._row(sample_id)
        return 1 if spec.encoding in UPRIGHT else row.number_of(f"{field}.orientation")

    def head(self, field: Field, sample_id: int) -> Head:
        """See `Dataset.head`."""
        row, (height, width, turn, grid) = self._row(sample_id), self._sides[field.name]
        size = row.number_of(height), row.number_of(width)
        data = self._grid(field.name, sample_id, grid, row) if grid else None
        return Head(size, row.number_of(turn) if turn else 1, data)

    def read(self, field: str, sample_id: int) -> memoryview | np.ndarray | np.generic:
        """See `Dataset.read`."""
        spec = self._field(field)
        row = self._row(sample_id)
        column = row.columns[field]
        if isinstance(column, FixedColumn):
            item: np.ndarray | np.generic = column.items[row.number]
            return item.astype(np.bool_) if spec.dtype == "bool" else item
        data = self._item(field, sample_id, column, row)
        if spec.kind == "bytes" or (spec.is_picture and spec.encoding != "raw"):
            return data
        if spec.is_picture:
            return self._raw_picture(spec, data, sample_id)
        return self._ragged(spec, data, sample_id)

    def reference(self, field: str, sample_id: int) -> bytes:
        """See `Dataset.reference`."""
        row = self._row(sample_id)
        column = row.columns[self._field(field).name]
        if not isinstance(column, ReferenceColumn):
            raise UsageError(
                f"field {field!r} of dataset {self.path} holds values, not references; use read()"
            )
        return bytes(column.items[row.number].tobytes())

    def grid(self, field: str, sample_id: int) -> memoryview | None:
        """See `Dataset.grid`."""
        column = self._sides[self._picture(field).name].grid
        return self._grid(field, sample_id, column, self._row(sample_id)) if column else None

    def sizes_of(self, field: str, ids: np.ndarray) -> np.ndarray:
        """See `Dataset.sizes_of`."""
        spec = self._field(field)
        found = np.ones((len(ids), 2), np.int64)
        for places, rows, columns in self._files.by_file(ids):
            if spec.is_picture:
                for side, name in enumerate(("height", "width")):
                    column = columns[f"{field}.{name}"]
                    assert isinstance(column, FixedColumn)
                    found[places, side] = column.items[rows]
                continue
            column = columns[field]
            inner = math.prod(side or 1 for side in spec.shape[1:])
            if isinstance(column, ReferenceColumn):
                item_bytes = np.dtype(spec.dtype).itemsize * inner
                found[places, 0] = column.sizes_bytes(rows) // item_bytes
                continue
            if not isinstance(column, VariableColumn):
                raise UsageError(
                    f"field {field!r} has shape {spec.shape} in every sample; use its schema"
                )
            found[places, 0] = self._lengths(field, ids[places], column, rows) // inner
        return found

    def alike(self, fields: Sequence[str]) -> UniformFields | None:
        """See `Dataset.alike`."""
        found = [self._field(name) for name in fields]
        if not all(is_uniform(field) for field in found):
            return None
        return UniformFields(self._files, [file.first_row for file in self.manifest.files], found)

    def gather(self, field: str, ids: np.ndarray, out: np.ndarray) -> bool:
        """See `Dataset.gather`."""
        spec = self._field(field)
        if not is_uniform(spec) or spec.is_picture:
            return False
        for places, rows, columns in self._files.by_file(ids):
            column = columns[field]
            assert isinstance(column, FixedColumn)
            out[places] = column.items[rows]
        return True

    def will_need(self, fields: Sequence[str], ids: np.ndarray) -> None:
        """See `Dataset.will_need`."""
        names = [name for name in fields if self._field(name)]
        for _, rows, columns in self._files.by_file(ids):
            for name in names:
                column = columns[name]
                if isinstance(column, VariableColumn):
                    for row in rows.tolist():
                        with contextlib.suppress(ValueError):  # reading it will raise
                            will_need(column.item(row))
                elif isinstance(column, ReferenceColumn):
                    for row in rows.tolist():
                        with contextlib.suppress(ValueError, DatasetError):
                            column.will_need(row)

    def source(self, sample_id: int) -> str | None:
        """See `Dataset.source`."""
        row = self._row(sample_id)
        column = row.columns.get(SOURCE)
        if not isinstance(column, VariableColumn):
            return None
        return bytes(self._item(SOURCE, sample_id, column, row)).decode(errors="replace")

    def digest(self, sample_id: int) -> bytes:
        """See `Dataset.digest`."""
        row = self._row(sample_id)
        column = row.columns[DIGEST]
        assert isinstance(column, FixedColumn)
        return bytes(column.items[row.number])

    def is_intact(self, sample_id: int) -> bool:
        """See `Dataset.is_intact`."""
        row = self._row(sample_id)
        stored = row.columns[CHECK]
        assert isinstance(stored, FixedColumn)
        try:
            return self.check_of(sample_id) == stored.stored(row.number)
        except SampleError:
            return False

    def check_of(self, sample_id: int) -> bytes:
        """Return the check of the sample's bytes as they are now.

        Raises:
            UsageError: there is no such id.
            SampleError: the file's own offsets are damaged.
        """
        return row_check(*self.checked(sample_id))

    def checked(self, sample_id: int) -> tuple[list[int], list[bytes | memoryview]]:
        """Return the lengths and the values that the sample's check covers; see `row_check`.

        Raises:
            UsageError: there is no such id.
            SampleError: the file's own offsets are damaged.
        """
        _, columns, number = self._row(sample_id)
        lengths: list[int] = []
        values: list[bytes | memoryview] = []
        for name in self._checked:
            column = columns[name]
            if isinstance(column, VariableColumn):
                try:
                    item = column.item(number)
                except ValueError as error:
                    field = name.partition(".")[0]
                    raise self.sample_error(field, sample_id, str(error)) from None
                lengths.append(len(item))
                values.append(item)
            else:
                values.append(column.stored(number))
        return lengths, values

    def locate(self, field: str, sample_id: int) -> tuple[StoredFile, int]:
        """See `Dataset.locate`."""
        if field != SOURCE:
            self._field(field)
        row = self._row(sample_id)
        return row.file.holder(field), row.columns[field].place(row.number)

    def _row(self, sample_id: int) -> FileRow:
        if not 0 <= sample_id < self.manifest.rows:
            raise UsageError(
                f"dataset {self.path} has ids 0 to {self.manifest.rows - 1}, got {sample_id}"
            )
        last = self._last  # the fields of a sample are read one after the other
        if last is None or last[0] != sample_id:
            self._last = last = (sample_id, self._files.row(sample_id))
        return last[1]

    def _item(
        self,
        name: str,
        sample_id: int,
        column: VariableColumn | ReferenceColumn,
        row: FileRow,
    ) -> memoryview:
        try:
            return column.item(row.number)
        except ValueError as error:
            raise self.sample_error(name, sample_id, str(error)) from None

    def _grid(self, field: str, sample_id: int, column: str, row: FileRow) -> memoryview | None:
        grids = row.columns[column]
        assert isinstance(grids, VariableColumn)
        return self._item(field, sample_id, grids, row) or None

    def _lengths(
        self, field: str, ids: np.ndarray, column: VariableColumn, rows: np.ndarray
    ) -> np.ndarray:
        found = column.lengths(rows)
        if (found < 0).any():
            number = int(np.flatnonzero(found < 0)[0])
            raise self.sample_error(field, int(ids[number]), "its offsets are damaged")
        return found

    def _whereabouts(self, field: str, sample_id: int) -> tuple[str, int]:
        """Return the file that holds a value, and its offset there in bytes."""
        row = self._row(sample_id)
        column = row.columns[field]
        if isinstance(column, ReferenceColumn):
            with contextlib.suppress(ValueError):  # a damaged reference is in the index
                return column.file_name(row.number), column.place(row.number)
            return row.file.name, 0
        return row.file.holder(field).name, column.place(row.number)


def _sides(field: Field) -> _Sides:
    turn = "" if field.encoding in UPRIGHT else f"{field.name}.orientation"
    return _Sides(f"{field.name}.height", f"{field.name}.width", turn, field.grid_column or "")


def _sources(manifest: Manifest) -> SourceFiles | None:
    if manifest.source is UNSET:
        return None
    return SourceFiles(Path(manifest.source.root), manifest.source.files)
