"""Read rows of Arrow and Parquet files: a value per field, from the column of its name."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from stoker.dataset.format.cells import Value
from stoker.dataset.format.fields import Field
from stoker.dataset.format.source_item import ContainerRow, Extract, Item
from stoker.dataset.limits import CodecError
from stoker.dataset.sources.common.field_notation import field_name
from stoker.dataset.sources.common.readers import BadItemError, check_path, open_unchanged
from stoker.dataset.sources.common.recipe import Recipe
from stoker.dataset.sources.formats.arrow_files import ArrowTable, TableFile, open_table
from stoker.dataset.sources.formats.arrow_types import dtype_of, is_picture


class RowReader:
    """Reads items that are a `ContainerRow` each; see `readers.Reader`."""

    def __init__(self, recipe: Recipe) -> None:
        """Prepare for a recipe; one file is open at a time, because rows come file by file."""
        self._root, self._containers = Path(recipe.source), recipe.containers
        self._fields = recipe.schema.fields
        self._number = -1
        self._table: TableFile | None = None
        self._columns: dict[str, int] = {}

    def read(self, item: Item) -> dict[str, Value | None]:
        """Return a value for each field; None for an optional one that is null.

        Raises:
            BadItemError: the row cannot be read.
        """
        (place,) = item.places
        assert isinstance(place, ContainerRow)
        table = self._open_item(item, place)
        try:
            batch, row = table.row(place.number)
        except CodecError as error:
            raise BadItemError(item.name, str(error)) from None
        values: dict[str, Value | None] = {}
        for field in self._fields:
            column = batch.column(self._columns[field.name])
            try:
                absent = field.optional and _is_null(column, row)
                values[field.name] = None if absent else value_of(field, column, row)
            except CodecError as error:
                raise BadItemError(item.name, f"field {field.name!r}: {error}") from None
        try:
            check_path(self._root, self._containers[place.container].file)
        except CodecError as error:
            raise BadItemError(item.name, str(error)) from None
        return values

    def locate(self, item: Item) -> dict[str, Value | Extract]:
        """Return for each field the place of its value, or the value; see `readers.Locator`."""
        (place,) = item.places
        assert isinstance(place, ContainerRow)
        table = self._open_item(item, place)
        if not isinstance(table, ArrowTable):
            raise BadItemError(
                item.name, "Parquet must be decoded, so it cannot be read in place; pack it"
            )
        batch, row = table.row(place.number)
        located: dict[str, Value | Extract] = {}
        for field in self._fields:
            column = batch.column(self._columns[field.name])
            try:
                if field.referenced:
                    start, size_bytes = table.extent(buffer_of(field, column, row))
                    located[field.name] = Extract(place.container, start, size_bytes)
                else:
                    located[field.name] = value_of(field, column, row)
            except CodecError as error:
                raise BadItemError(item.name, f"field {field.name!r}: {error}") from None
        return located

    def extract(self, place: Extract) -> bytes:
        """Return the bytes at a place; see `readers.Locator`."""
        table = self._open(place.container)
        assert isinstance(table, ArrowTable)
        return table.data(place.offset, place.size_bytes)

    def close(self) -> None:
        """Close the open file."""
        if self._table is not None:
            self._table.close()
        self._table, self._number = None, -1

    def _open_item(self, item: Item, place: ContainerRow) -> TableFile:
        try:
            return self._open(place.container)
        except CodecError as error:
            raise BadItemError(item.name, str(error)) from None

    def _open(self, number: int) -> TableFile:
        if self._table is not None and self._number == number:
            return self._table
        self.close()
        file = self._containers[number].file
        descriptor = open_unchanged(self._root, file)
        try:
            table = open_table(f"/proc/self/fd/{descriptor}", file.path)
        except OSError as error:
            raise CodecError(f"it cannot be read: {error}") from None
        finally:
            os.close(descriptor)
        self._table, self._number = table, number
        self._columns = {
            field_name(column): place for place, column in enumerate(table.schema.names)
        }
        return table


def value_of(field: Field, column: Any, row: int) -> Value:
    """Return the value of a row of a pyarrow array.

    Raises:
        CodecError: it is null, or lists in it have the wrong lengths.
    """
    if field.is_picture or field.kind == "bytes":
        return bytes(_bytes_of(column, row))
    cell = _cell(column, row)
    if field.kind != "array":
        return np.asarray(cell.as_py())
    numbers, sides = _numbers_of(cell.values, field)
    return np.asarray(numbers.to_numpy(zero_copy_only=False)).reshape(sides)


def buffer_of(field: Field, column: Any, row: int) -> Any:
    """Return the pyarrow buffer that holds the value of a row, and nothing else.

    Raises:
        CodecError: as in `value_of`, or the value is not stored as it is used.
    """
    if field.kind != "array":
        return _bytes_of(column, row)
    numbers, sides = _numbers_of(_cell(column, row).values, field)
    fits = all(want in (None, got) for want, got in zip(field.shape, sides, strict=True))
    found = dtype_of(numbers.type)
    if not fits or found != field.dtype or field.dtype == "bool":  # Arrow packs bools into bits
        raise CodecError(
            f"expected {field.dtype} {field.shape} as stored, got {numbers.type} {sides}"
        )
    width = np.dtype(field.dtype).itemsize
    return numbers.buffers()[1].slice(numbers.offset * width, len(numbers) * width)


def _is_null(column: Any, row: int) -> bool:
    """Return whether a row has no value; for an image, both its bytes and its path are null."""
    cell = column[row]
    if not cell.is_valid or not is_picture(column.type):
        return not cell.is_valid
    return not (cell["bytes"].is_valid or cell["path"].is_valid)


def _cell(column: Any, row: int) -> Any:
    cell = column[row]
    if not cell.is_valid:
        raise CodecError(
            "expected a value, because a dataset has one for every sample, got null; if samples "
            "may lack it, declare a fill (docs/packing.md, Samples that lack a field)"
        )
    return cell


def _bytes_of(column: Any, row: int) -> Any:
    """Return a row's bytes as a part of the column's buffer; a scalar would be a copy."""
    cell = _cell(column, row)
    if is_picture(column.type):
        if not cell["bytes"].is_valid:
            raise CodecError(
                f"its image is in another file ({cell['path'].as_py()}); store it in the rows, "
                "for example with `embed_table_storage` of the package datasets"
            )
        column = column.field("bytes")
    _, offsets, data = column.buffers()
    dtype = np.dtype(np.int64 if "large" in str(column.type) else np.int32)
    place = (column.offset + row) * dtype.itemsize
    first, stop = np.frombuffer(offsets, dtype, 2, place).tolist()
    return offsets.slice(0, 0) if data is None else data.slice(first, stop - first)


def _numbers_of(values: Any, field: Field) -> tuple[Any, list[int]]:
    """Return the numbers in nested lists, flattened, and the lengths of the lists."""
    sides = [len(values)]
    for _ in field.shape[1:]:
        lengths = {len(part) for part in values} or {0}
        if len(lengths) > 1:
            raise CodecError(f"its lists differ in length: {sorted(lengths)}")
        sides.append(lengths.pop())
        values = values.flatten()
    if values.null_count:
        raise CodecError("a number in it is null")
    return values, sides
