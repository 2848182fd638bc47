"""The columns of a dataset's files, mapped on first use; the `max_maps` last used are kept.

A row is found by bisection over the files' first rows: O(log files), with nothing per sample in
memory. Existing views keep their map alive when its file leaves the cache. Threads may share this:
the cache changes under a lock, and a row holds its columns independently of the cache.
"""

import bisect
import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stoker.dataset.format.arrow import ITEM_BYTES, ColumnType, parse_type
from stoker.dataset.format.manifest import ColumnPlace, DataFile, Manifest
from stoker.dataset.reading.mapping import map_file
from stoker.dataset.reading.source_files import SourceFiles
from stoker.protocol.errors import ClosedError, DatasetError


@dataclass(frozen=True)
class FixedColumn:
    """A column of items of equal size, one for each row; `start` is its byte in the file.

    `items`, `numbers` and `data` are the same memory: an index of `numbers`, for a column of
    integers, gives an `int` without a NumPy scalar, and a slice of `data` gives bytes.
    """

    items: np.ndarray
    start: int
    data: memoryview
    numbers: memoryview
    item_bytes: int

    def stored(self, row: int) -> memoryview:
        """Return the bytes of an item."""
        size_bytes = self.item_bytes
        return self.data[row * size_bytes : (row + 1) * size_bytes]

    def place(self, row: int) -> int:
        """Return the offset of an item in the file, in bytes."""
        return self.start + row * self.item_bytes


@dataclass(frozen=True)
class VariableColumn:
    """A column of items that differ in length; offsets count elements of `step` bytes.

    `bounds` are the offsets, too: its elements are `int`.
    """

    data: memoryview
    offsets: np.ndarray
    bounds: memoryview
    step: int
    start: int

    def item(self, row: int) -> memoryview:
        """Return an item's bytes.

        Raises:
            ValueError: its offsets are damaged.
        """
        first, stop = self.step * self.bounds[row], self.step * self.bounds[row + 1]
        if not 0 <= first <= stop <= len(self.data):
            raise ValueError(f"its offsets {first} and {stop} are damaged")
        return self.data[first:stop]

    def place(self, row: int) -> int:
        """Return the offset of an item in the file, in bytes."""
        return self.start + self.step * self.bounds[row]

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Return how many elements items have, (n,) int64; -1 where the offsets are damaged."""
        first, stop = self.offsets[rows], self.offsets[rows + 1]
        good = (first >= 0) & (first <= stop) & (stop <= len(self.data) // self.step)
        found: np.ndarray = np.where(good, stop - np.where(good, first, 0), -1)
        return found


@dataclass(frozen=True)
class ReferenceColumn:
    """A column of references to values in the files of a source."""

    items: np.ndarray
    sources: SourceFiles

    def item(self, row: int) -> memoryview:
        """Return an item's bytes, read from its file.

        Raises:
            ValueError: its reference is damaged.
            DatasetError: the file has changed.
        """
        number, size_bytes, offset = self._reference(row)
        return memoryview(self.sources.read(number, offset, size_bytes))

    def will_need(self, row: int) -> None:
        """Start to read an item's bytes from storage, without waiting for them.

        Raises:
            ValueError: its reference is damaged.
            DatasetError: the file has changed.
        """
        number, size_bytes, offset = self._reference(row)
        self.sources.will_need(number, offset, size_bytes)

    def sizes_bytes(self, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return the sizes of items in bytes, from their references, (rows,) int64."""
        return self.items[rows, 1].astype(np.int64)

    def file_name(self, row: int) -> str:
        """Return the path of the file that holds an item."""
        return self.sources.name(self._reference(row)[0])

    def stored(self, row: int) -> memoryview:
        """Return the bytes of a reference."""
        found: memoryview = self.items[row].data
        return found

    def place(self, row: int) -> int:
        """Return the offset of an item in its file, in bytes."""
        return self._reference(row)[2]

    def _reference(self, row: int) -> tuple[int, int, int]:
        number, size_bytes, low, high = self.items[row].tolist()
        if number >= len(self.sources):
            raise ValueError(
                f"its reference is damaged: expected a file below {len(self.sources)}, got {number}"
            )
        return number, size_bytes, high << 32 | low


Column = FixedColumn | VariableColumn | ReferenceColumn
Columns = Mapping[str, Column]


class FileRow(NamedTuple):
    """A row of a file: all columns of that file, and the row's number in it."""

    file: DataFile
    columns: Columns
    number: int

    def number_of(self, column: str) -> int:
        """Return the value of a column of integers."""
        found = self.columns[column]
        assert isinstance(found, FixedColumn)
        number: int = found.numbers[self.number]
        return number


class ColumnFiles:
    """All files of a dataset; `row` finds a row in them."""

    def __init__(
        self, folder: Path, manifest: Manifest, max_maps: int, sources: SourceFiles | None
    ) -> None:
        self._folder = folder
        self._sources = sources
        self._referenced = frozenset(f.name for f in manifest.schema.fields if f.referenced)
        self._files = manifest.files
        self._first_rows = [file.first_row for file in manifest.files]
        self._types = {name: parse_type(text) for name, text in manifest.schema.columns()}
        self._mapped: OrderedDict[int, dict[str, Column]] = OrderedDict()
        self._max_maps = max(1, max_maps)
        self._drops = len(self._files) > self._max_maps
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Drop the maps; existing views stay valid."""
        self._closed = True
        with self._lock:
            self._mapped.clear()

    def row(self, number: int) -> FileRow:
        """Find a row, from 0 to the number of rows, exclusive.

        Raises:
            ClosedError: the dataset was closed.
            DatasetError: its file cannot be mapped.
        """
        index = bisect.bisect_right(self._first_rows, number) - 1
        columns = self._mapped.get(index)
        if columns is None:
            columns = self._map(index)
        elif self._drops:
            # If another thread has evicted it: this reference keeps it.
            with contextlib.suppress(KeyError):
                self._mapped.move_to_end(index)
        return FileRow(self._files[index], columns, number - self._first_rows[index])

    def by_file(self, numbers: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, Columns]]:
        """Group rows by file: (their places in `numbers`, rows of the file, its columns).

        Raises:
            ClosedError: the dataset was closed.
            DatasetError: a file cannot be mapped.
        """
        indices = np.searchsorted(self._first_rows, numbers, side="right") - 1
        for index in np.unique(indices).tolist():
            places = np.flatnonzero(indices == index)
            first = self._first_rows[index]
            yield places, numbers[places] - first, self.row(first).columns

    def _map(self, index: int) -> dict[str, Column]:
        if self._closed:
            raise ClosedError(
                f"dataset {self._folder} was closed; open it again", dataset=str(self._folder)
            )
        file = self._files[index]
        try:
            views = {
                part.name: map_file(self._folder / part.name, part.size_bytes)
                for part in file.parts
            }
        except OSError as error:
            named = " and ".join(part.name for part in file.parts)
            raise DatasetError(
                f"dataset {self._folder}: cannot map its file {named}: {error.strerror}; "
                "restore it, or pack the dataset again",
                dataset=str(self._folder),
            ) from None
        columns = {}
        for name in self._types:
            holder = file.holder(name)
            columns[name] = self._column(name, holder.columns[name], views[holder.name])
        with self._lock:
            self._mapped[index] = columns
            while len(self._mapped) > self._max_maps:
                self._mapped.popitem(last=False)
        return columns

    def _column(self, name: str, place: ColumnPlace, view: memoryview) -> Column:
        column = _column(self._types[name], place, view)
        if name in self._referenced:
            assert isinstance(column, FixedColumn)
            assert self._sources is not None
            return ReferenceColumn(column.items, self._sources)
        return column


def _column(kind: ColumnType, place: ColumnPlace, view: memoryview) -> FixedColumn | VariableColumn:
    data = view[place.data.offset : place.data.end]
    if place.offsets is not None:
        offsets = np.frombuffer(view[place.offsets.offset : place.offsets.end], np.int64)
        step = ITEM_BYTES[kind.dtype]
        return VariableColumn(data, offsets, offsets.data, step, place.data.offset)
    dtype = np.uint8 if kind.dtype == "bool" else np.dtype(kind.dtype)
    items = np.frombuffer(data, dtype).reshape(-1, *kind.inner)
    return FixedColumn(items, place.data.offset, data, items.data, items.strides[0])
