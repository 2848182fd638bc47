"""Reads the samples of WebDataset tars: the bytes of each member, as its field's kind has them."""

import contextlib

import numpy as np

from stoker.dataset.cells import Value
from stoker.dataset.limits import CodecError
from stoker.dataset.schema import Field
from stoker.dataset.sources.item import Item
from stoker.dataset.sources.npy import MAGIC, read_array
from stoker.dataset.sources.readers import BadItemError, FileReader

_MAX_DIGITS = 32


class TarReader(FileReader):
    """Reads items whose places are the members of tars; see `readers.Reader`."""

    def read(self, item: Item) -> dict[str, Value]:
        """Return a value for each field."""
        values = super().read(item)
        for field in self._fields:
            try:
                values[field.name] = _value(field, values[field.name])
            except CodecError as error:
                raise BadItemError(item.name, f"field {field.name!r}: {error}") from None
        return values


def _value(field: Field, data: Value) -> Value:
    assert isinstance(data, bytes)
    if field.is_picture or field.kind == "bytes":
        return data
    if field.kind == "array" or data.startswith(MAGIC):
        return read_array(data)
    return _number(data, field.dtype)


def _number(data: bytes, dtype: str) -> int | float:
    """Read a number that was written as text."""
    whole = np.dtype(dtype).kind in "iu"
    what = "a whole number" if whole else "a number"
    with contextlib.suppress(ValueError):
        text = data.decode("ascii").strip()
        if len(data) <= _MAX_DIGITS:
            return int(text) if whole else float(text)
    raise CodecError(f"expected {what} as text, got {data[:_MAX_DIGITS]!r}")
