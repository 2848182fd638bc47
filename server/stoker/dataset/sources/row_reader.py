"""Reads rows of Arrow and Parquet files: a value for each field, from the column of its name."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from stoker.dataset.cells import Value
from stoker.dataset.limits import CodecError
from stoker.dataset.schema import Field
from stoker.dataset.sources.arrow_files import TableFile, open_table
from stoker.dataset.sources.declare import field_name
from stoker.dataset.sources.huggingface import is_picture
from stoker.dataset.sources.item import Item, Record
from stoker.dataset.sources.readers import BadItemError, open_unchanged
from stoker.dataset.sources.recipe import Recipe


class RowReader:
    """Reads items that are a `Record` each; see `readers.Reader`."""

    def __init__(self, recipe: Recipe) -> None:
        """Read by a recipe; one file is open at a time, as rows come file by file."""
        self._root, self._containers = Path(recipe.source), recipe.containers
        self._fields = recipe.schema.fields
        self._number = -1
        self._table: TableFile | None = None
        self._columns: dict[str, int] = {}

    def read(self, item: Item) -> dict[str, Value]:
        """Return a value for each field.

        Raises:
            BadItemError: the row cannot be read.
        """
        (place,) = item.places
        assert isinstance(place, Record)
        try:
            batch, row = self._open(place.container).row(place.number)
        except CodecError as error:
            raise BadItemError(item.name, str(error)) from None
        values: dict[str, Value] = {}
        for field in self._fields:
            try:
                values[field.name] = value_of(field, batch.column(self._columns[field.name]), row)
            except CodecError as error:
                raise BadItemError(item.name, f"field {field.name!r}: {error}") from None
        return values

    def close(self) -> None:
        """Close the file that is open."""
        if self._table is not None:
            self._table.close()
        self._table, self._number = None, -1

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
        CodecError: it is null, or lists in it have other lengths than the field says.
    """
    cell = column[row]
    if not cell.is_valid:
        raise CodecError("it is null, but a dataset has a value for every sample")
    if is_picture(column.type):
        return _picture(cell)
    if field.is_picture or field.kind == "bytes":
        return bytes(cell.as_buffer())
    if field.kind == "array":
        return _array(cell.values, field.shape)
    return np.asarray(cell.as_py())


def _picture(cell: Any) -> bytes:
    data = cell["bytes"]
    if not data.is_valid:
        path = cell["path"].as_py()
        raise CodecError(
            f"its picture lies in another file ({path}); store it in the rows, as the package "
            "datasets does by `embed_table_storage`"
        )
    return bytes(data.as_buffer())


def _array(values: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    sides = [len(values)]
    for _ in shape[1:]:
        lengths = {len(part) for part in values} or {0}
        if len(lengths) > 1 or None in lengths:
            raise CodecError(f"its lists differ in length: {sorted(lengths)}")
        sides.append(lengths.pop())
        values = values.flatten()
    if values.null_count:
        raise CodecError("a number in it is null")
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(sides)
