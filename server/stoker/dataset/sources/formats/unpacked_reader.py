"""Read the samples of a folder that `stoker unpack` wrote, in a worker; see `unpacked_folder`."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import UNSET

from stoker.dataset.format.cells import Value
from stoker.dataset.format.fields import Field
from stoker.dataset.format.source_item import Item, WholeFile
from stoker.dataset.images.inspection import Scratches, inspect_picture
from stoker.dataset.limits import CodecError
from stoker.dataset.sources.common.npy import MAGIC, read_array
from stoker.dataset.sources.common.readers import BadItemError, FileReader
from stoker.dataset.sources.common.recipe import Recipe


class UnpackedReader(FileReader):
    """Reads files as `FileReader`; arrays and raw pixels from them, and numbers from lines."""

    def __init__(self, recipe: Recipe) -> None:
        """Prepare for a recipe."""
        super().__init__(recipe)
        self._scratch = Scratches()

    def read(self, item: Item) -> dict[str, Value | None]:
        """Return a value for each field; see `readers.Reader`."""
        values = super().read(item)
        for field, place in zip(self._fields, item.places, strict=True):
            value = values[field.name]
            in_file = isinstance(place, WholeFile)
            try:
                if in_file:
                    assert isinstance(value, bytes)
                    values[field.name] = self._of_file(field, value)
                elif value is not None:
                    values[field.name] = _of_line(field, value)
            except CodecError as error:
                path = place.file.path if isinstance(place, WholeFile) else item.name
                raise BadItemError(path, f"field {field.name!r}: {error}") from None
        return values

    def _of_file(self, field: Field, data: bytes) -> Value:
        if field.kind == "bytes":
            return data
        if field.kind == "array" or data.startswith(MAGIC):
            return read_array(data)
        if field.encoding == "raw" and field.fits_files:
            found = inspect_picture(data, field.kind, self._scratch, bool(field.keeps_orientation))
            shape = (found.height, found.width, *((3,) if field.kind == "image" else ()))
            return self._scratch.pixels.take(math.prod(shape)).reshape(shape).copy()
        return data


def _of_line(field: Field, value: Any) -> Any:
    """Return the numbers of a line as arrays; the name of a class stays text.

    Raises:
        CodecError: numbers have no common shape.
    """
    if field.kind == "label" and isinstance(value, str):
        return value
    if isinstance(value, Mapping) and field.items is not UNSET:
        dtypes = {part.name: part.dtype for part in field.items.fields}
        return {name: _array(part, dtypes.get(name, "")) for name, part in value.items()}
    return _array(value, field.dtype)


def _array(value: Any, dtype: str) -> np.ndarray:
    """Return an array; text becomes floats, if the dtype is one."""
    try:
        found = np.asarray(value)
        is_text = found.dtype.kind == "U" and dtype.startswith("float")
        return found.astype(dtype) if is_text else found
    except (ValueError, TypeError, OverflowError) as error:
        raise CodecError(f"expected numbers, got others: {error}") from None
