"""A row of an index: references to its images, masks, arrays and bytes, and its scalar values.

Runs in packing workers. An **index** is a dataset whose large values stay in the source's files.
Their columns hold **references**: four unsigned 32-bit words, the file's number, the length in
bytes, and the offset in bytes, low word first.
"""

import math
import struct
from collections.abc import Callable, Mapping, Sequence

import msgspec

from stoker.dataset.format.arrow import ITEM_BYTES
from stoker.dataset.format.cells import Cell, FieldError, Value, make_cell
from stoker.dataset.format.fields import Field
from stoker.dataset.format.source_item import Extract
from stoker.dataset.images.header_size import size_from_header
from stoker.dataset.images.inspection import Scratches
from stoker.dataset.limits import MAX_FILE_BYTES, CodecError

_REFERENCE = struct.Struct("<IIQ")


def index_cells(
    fields: Sequence[Field],
    located: Mapping[str, Extract | Value],
    extract: Callable[[Extract], bytes],
    scratch: Scratches,
) -> dict[str, Cell]:
    """Return the cells of a row of an index.

    Args:
        fields: the fields of the index.
        located: for each field the place of its value, or the value itself.
        extract: reads the bytes at a place.
        scratch: memory.

    Raises:
        FieldError: a value cannot be read in place, or does not fit its field.
    """
    cells: dict[str, Cell] = {}
    for field in fields:
        value = located[field.name]
        try:
            if isinstance(value, Extract):
                cells[field.name] = _reference(field, value, extract)
            else:
                cells[field.name] = make_cell(field, value, scratch)
        except CodecError as error:
            raise FieldError(field.name, str(error)) from None
    return cells


def _reference(field: Field, place: Extract, extract: Callable[[Extract], bytes]) -> Cell:
    if place.size_bytes > MAX_FILE_BYTES:
        raise CodecError(
            f"it has {place.size_bytes} bytes, more than the limit of {MAX_FILE_BYTES}"
        )
    data = _REFERENCE.pack(place.container, place.size_bytes, place.offset)
    if field.is_picture:

        def head(size_bytes: int) -> bytes:
            return extract(msgspec.structs.replace(place, size_bytes=size_bytes))

        seen = size_from_header(place.size_bytes, field.kind, head)
        sides = (seen.height, seen.width, seen.orientation)
        return Cell(data, sides, b"", seen.height, seen.width, seen.encoding)
    return Cell(data, items=_items(field, place.size_bytes))


def _items(field: Field, size_bytes: int) -> int:
    """Return the length of the first side."""
    return size_bytes // (
        ITEM_BYTES[field.dtype] * math.prod(side or 1 for side in field.shape[1:])
    )
