"""Read the samples of WebDataset tars: the bytes of each member, converted by kind."""

import contextlib

import msgspec
import numpy as np

from stoker.dataset.format.cells import Value
from stoker.dataset.format.fields import Field
from stoker.dataset.format.source_item import Extract, Item
from stoker.dataset.limits import CodecError
from stoker.dataset.sources.common.npy import (
    HEADER_BYTES,
    MAGIC,
    NpyHeader,
    read_array,
    read_header,
)
from stoker.dataset.sources.common.readers import BadItemError, FileReader

_MAX_DIGITS = 32


class TarReader(FileReader):
    """Reads items whose places are the members of tars; see `readers.Reader`."""

    def locate(self, item: Item) -> dict[str, Value | Extract]:
        """Return for each field the place of its value, or the value itself."""
        located: dict[str, Value | Extract] = {}
        for field, place in zip(self._fields, item.places, strict=True):
            assert isinstance(place, Extract)
            try:
                located[field.name] = self._located(field, place)
            except CodecError as error:
                raise BadItemError(item.name, f"field {field.name!r}: {error}") from None
        return located

    def _located(self, field: Field, place: Extract) -> Value | Extract:
        if field.is_picture or field.kind == "bytes":
            return place
        if field.kind != "array":
            return _value(field, self.extract(place))
        head = msgspec.structs.replace(place, size_bytes=min(place.size_bytes, HEADER_BYTES))
        return _array_place(field, place, read_header(self.extract(head)))

    def read(self, item: Item) -> dict[str, Value | None]:
        """Return a value for each field."""
        values = super().read(item)
        for field in self._fields:
            value = values[field.name]
            try:
                values[field.name] = None if value is None else _value(field, value)
            except CodecError as error:
                raise BadItemError(item.name, f"field {field.name!r}: {error}") from None
        return values


def _array_place(field: Field, place: Extract, header: NpyHeader) -> Extract:
    """Return the place of the elements of an array, which must match the field."""
    found = header.dtype.name, len(header.shape), header.shape[1:], header.fortran_order
    if found != (field.dtype, len(field.shape), field.shape[1:], False):
        raise CodecError(
            f"expected {field.dtype} {field.shape} in C order, got {header.dtype} {header.shape}"
            f"{' in Fortran order' if header.fortran_order else ''}"
        )
    fits = field.shape[0] in (None, header.shape[0])
    if not fits or header.offset + header.size_bytes != place.size_bytes:
        raise CodecError(f"expected shape {field.shape} and no more data, got {header.shape}")
    if header.dtype.byteorder == ">":
        raise CodecError("its numbers are big-endian, so it cannot be read in place; pack it")
    return Extract(place.container, place.offset + header.offset, header.size_bytes)


def _value(field: Field, data: Value) -> Value:
    assert isinstance(data, bytes)
    if field.is_picture or field.kind == "bytes":
        return data
    if field.kind == "array" or data.startswith(MAGIC):
        return read_array(data)
    return _number(data, field.dtype)


def _number(data: bytes, dtype: str) -> int | float:
    """Parse a number that was stored as text."""
    whole = np.dtype(dtype).kind in "iu"
    what = "an integer" if whole else "a number"
    with contextlib.suppress(ValueError):
        text = data.decode("ascii").strip()
        if len(data) <= _MAX_DIGITS:
            return int(text) if whole else float(text)
    raise CodecError(f"expected {what} as text, got {data[:_MAX_DIGITS]!r}")
