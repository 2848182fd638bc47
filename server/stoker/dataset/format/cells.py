"""Convert one value of one field to a cell: its stored bytes and its hashed bytes.

The hashed bytes of a value are its stored bytes, except for an image or mask in bands: there they
are its pixels. Before pixels, their height and width are hashed (two unsigned 32-bit integers),
because pixels alone do not determine them.
"""

import difflib
import io
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from msgspec import UNSET
from PIL import Image

from stoker.dataset.format.box_conversion import items_of
from stoker.dataset.format.fields import Field
from stoker.dataset.format.number_conversion import as_mask, exactly
from stoker.dataset.images.bands import encode_bands
from stoker.dataset.images.deep_images import decode_deep
from stoker.dataset.images.gridding import with_grid
from stoker.dataset.images.inspection import Scratches, inspect_picture
from stoker.dataset.limits import CodecError, check_pixels

Value = (
    bytes
    | bytearray
    | memoryview
    | np.ndarray
    | np.generic
    | int
    | float
    | bool
    | Mapping[str, Any]
)


@dataclass(frozen=True)
class Cell:
    """A value, ready to be stored.

    Attributes:
        data: bytes of the field's own column.
        sides: values of its side columns, in order.
        prefix: bytes that are hashed before the rest.
        items: first side of the value: the height, or the number of items of a free first side.
        width: width of an image or mask, otherwise 0.
        encoding: encoding of an image or mask, otherwise "raw".
        notes: remarks for the dataset's owner.
        content: the bytes that are hashed instead of `data`, if they differ from it.
        came_bytes: size of the original file, for a JPEG that was rewritten on a grid.
    """

    data: bytes | memoryview
    sides: tuple[int | bytes, ...] = ()
    prefix: bytes = b""
    items: int = 0
    width: int = 0
    encoding: str = "raw"
    notes: tuple[str, ...] = ()
    content: bytes | None = None
    came_bytes: int = 0

    @property
    def hashed(self) -> bytes | memoryview:
        """The bytes that are hashed after `prefix`."""
        return self.data if self.content is None else self.content


class FieldError(CodecError):
    """A value does not fit its field; its text consists of `field` and `reason`."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"field {field!r}: {reason}")
        self.field, self.reason = field, reason


def make_cells(
    fields: Sequence[Field],
    row: Mapping[str, Value],
    scratch: Scratches,
    make: "Callable[[Field, Value, Scratches], Cell] | None" = None,
) -> dict[str, Cell]:
    """Convert the values of a row; boxes and keypoints are checked against their image.

    Args:
        fields: the fields to convert.
        row: a value for each field.
        scratch: memory.
        make: converts all values except boxes and keypoints; None means `make_cell`.

    Raises:
        FieldError: a value does not fit its field.
    """
    cells: dict[str, Cell] = {}
    for field in sorted(
        fields, key=lambda field: field.items is not UNSET
    ):  # images and masks first
        try:
            if field.items is UNSET:
                cells[field.name] = (make or make_cell)(field, row[field.name], scratch)
            else:
                picture = None if field.items.of is None else cells[field.items.of]
                size = None if picture is None else (picture.items, picture.width)
                items = items_of(field, row[field.name], size)
                cells[field.name] = Cell(items.astype("<u4").tobytes(), items=len(items))
        except CodecError as error:
            raise FieldError(field.name, str(error)) from None
    for field in fields:
        if field.optional and not any(cells[field.present_name].data):
            cell = cells[field.name]
            cells[field.name] = replace(cell, notes=(*cell.notes, "absent, so filled"))
    return cells


def make_cell(field: Field, value: Value, scratch: Scratches) -> Cell:
    """Convert a value of any kind except boxes and keypoints to its cell.

    Raises:
        CodecError: the value does not fit its field, or is an image or mask that cannot be decoded.
    """
    if field.is_picture:
        if not field.fits_files:
            value = deep_pixels(field, value)
        if field.kind == "mask" and isinstance(value, np.ndarray):
            value = as_mask(field.dtype, value)
        if field.encoding == "raw":
            return _raw_picture(field, value)
        if field.encoding == "bands":
            return _banded(field, value, scratch)
        return _picture(field, value, scratch)
    if field.kind == "bytes":
        if not isinstance(value, bytes | bytearray | memoryview):
            raise CodecError(f"expected bytes, got {type(value).__name__}")
        return Cell(bytes(value), items=len(value))
    return _numbers(field, value)


def deep_pixels(field: Field, value: Value) -> Value:
    """Return the pixels of a file of one channel and more than 8 bits; other values as they are.

    Raises:
        CodecError: it cannot be decoded, or does not fit.
    """
    one = field.shape[2:] in ((), (1,))
    if not one or not isinstance(value, bytes | bytearray | memoryview):
        return value
    return decode_deep(bytes(value), field.kind, field.dtype, bool(field.keeps_orientation))


def _picture(field: Field, value: Value, scratch: Scratches) -> Cell:
    if isinstance(value, np.ndarray):
        value = _as_png(field, value)
    picture = inspect_picture(_file(value), field.kind, scratch, bool(field.keeps_orientation))
    if field.encoding not in ("encoded", "planes", picture.encoding):
        raise CodecError(f"expected encoding {field.encoding}, got {picture.encoding}")
    sides: tuple[int | bytes, ...] = (picture.height, picture.width, picture.orientation)
    if field.grid_column is not None:
        picture = with_grid(picture, scratch, field.encoding == "planes")
        sides = (*sides, picture.grid)
    size = picture.height, picture.width
    return Cell(
        picture.data, sides, b"", *size, picture.encoding, picture.notes,
        came_bytes=picture.came_bytes,
    )  # fmt: skip


def _banded(field: Field, value: Value, scratch: Scratches) -> Cell:
    notes: tuple[str, ...] = ()
    if isinstance(value, np.ndarray):
        size, pixels = _check_pixels(field, value), np.ascontiguousarray(value)
    else:
        _check_file(field)
        keep = bool(field.keeps_orientation)
        picture = inspect_picture(_file(value), field.kind, scratch, keep)
        size, notes = (picture.height, picture.width), picture.notes
        shape = (*size, 3) if field.kind == "image" else size
        pixels = scratch.pixels.take(int(np.prod(shape))).reshape(shape)
    prefix = struct.pack("<II", *size)
    return Cell(encode_bands(pixels), size, prefix, *size, "bands", notes, pixels.tobytes())


def _check_file(field: Field) -> None:
    if not field.fits_files:
        raise CodecError(
            f"expected {field.dtype} pixels, got the bytes of an image file, which is read as "
            "uint8 with 3 channels, or as a mask of uint8"
        )


def _file(value: Value) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise CodecError(
            f"expected the bytes of an image file, or pixels, got {type(value).__name__}"
        )
    return bytes(value)


def _as_png(field: Field, value: np.ndarray) -> bytes:
    _check_pixels(field, value)
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(value)).save(out, "PNG", compress_level=6)
    return out.getvalue()


def _raw_picture(field: Field, value: Value) -> Cell:
    if not isinstance(value, np.ndarray):
        raise CodecError(f"expected an array of pixels, got {type(value).__name__}")
    height, width = _check_pixels(field, value)
    stored = value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
    return Cell(stored, (height, width), struct.pack("<II", height, width), height, width)


def _check_pixels(field: Field, value: np.ndarray) -> tuple[int, int]:
    tail = field.shape[2:]
    if value.dtype != field.dtype or value.ndim != 2 + len(tail) or value.shape[2:] != tail:
        raise CodecError(
            f"expected {field.dtype} pixels of shape (H, W{f', {tail[0]}' if tail else ''}), got "
            f"{value.dtype} of shape {value.shape}"
        )
    check_pixels(*value.shape[:2])
    return value.shape[0], value.shape[1]


def _number_of(field: Field, name: str) -> int:
    """Return the number of a class."""
    if field.classes is None:
        raise CodecError(
            f"expected the number of a class, got text {name!r}; to give names, declare them in "
            "their order: schema.label(classes=[...])"
        )
    if name not in field.classes:
        near = difflib.get_close_matches(name, field.classes, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise CodecError(f"expected one of {len(field.classes)} classes, got {name!r}{hint}")
    return field.classes.index(name)


def _any_length(field: Field, got: np.ndarray) -> str:
    """Return what to declare if only the length differs."""
    if not field.shape or got.ndim != len(field.shape) or got.shape[1:] != field.shape[1:]:
        return ""
    sides = ",".join(["?", *map(str, field.shape[1:])])
    return f"; for lists of any length, declare --field {field.name}={field.dtype}[{sides}]"


def _numbers(field: Field, value: Value) -> Cell:
    if isinstance(value, bytes | bytearray | memoryview):
        raise CodecError(f"expected {field.dtype} of shape {field.shape}, got bytes")
    if field.kind == "label" and isinstance(value, str):
        value = _number_of(field, value)
    exact = exactly(field.dtype, value)
    fits = exact.ndim == len(field.shape) and all(
        want is None or want == got for want, got in zip(field.shape, exact.shape, strict=True)
    )
    if not fits:
        raise CodecError(
            f"expected shape {field.shape}, got {exact.shape}{_any_length(field, exact)}"
        )
    named = field.classes if field.kind == "label" and exact != field.fill else None
    if named is not None and not 0 <= exact < len(named):
        raise CodecError(f"expected a class from 0 to {len(named) - 1}, got {exact}")
    stored = exact.astype(exact.dtype.newbyteorder("<"), copy=False).tobytes()
    return Cell(stored, items=exact.shape[0] if exact.ndim else 0)
