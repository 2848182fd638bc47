"""Fields and schemas of a dataset, as its manifest stores them.

Pure data: the constructors are in `stoker.dataset.schema`, the checks in `field_checks`.
"""

import math
import re

import msgspec
from msgspec import UNSET, UnsetType

from stoker.dataset.format.arrow import ITEM_BYTES, ColumnType, parse_type
from stoker.protocol.errors import UsageError
from stoker.protocol.item_fields import ItemField

KINDS = ("image", "mask", "boxes", "keypoints", "label", "scalar", "array", "bytes")


ENCODINGS = ("raw", "jpeg", "png", "encoded", "bands", "planes")


PLANES = "planes"


UPRIGHT = ("raw", "bands")
"""Encodings whose pixels are upright; the others may have an EXIF orientation."""


PICTURES = ("image", "mask")


PIXELS = {
    "image": ("uint8", "uint16", "int16", "float32"),
    "mask": ("uint8", "uint16", "int32"),
}
"""dtypes of pixels; those other than uint8 are stored raw or in bands."""


VECTORS = {"flow": 2, "normals": 3}
"""Meaning of an image whose channels are the components of vectors -> their number."""


MAX_CHANNELS = 16


CLASS_PARTS = {"boxes": "label", "keypoints": "keypoint"}
"""Kind -> the field of an item whose values may have names."""


MAX_FIELDS = 256


MAX_SIDE = 2**31 - 1


DIGEST = "stoker.digest"


DIGEST_TYPE = "fixed_size_binary[16]"


CHECK = "stoker.check"


CHECK_TYPE = "fixed_size_binary[8]"


SOURCE = "stoker.source"


SOURCE_TYPE = "large_utf8"


ROW_COLUMNS = (DIGEST, CHECK, SOURCE)
"""Columns that describe a whole row."""


REFERENCE_TYPE = "uint32[4]"
"""A reference: file, length in bytes, and offset in bytes, low word first."""


REFERABLE = ("image", "mask", "bytes", "array")


FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


ITEM_TYPE = re.compile(r"([a-z]+[0-9]*)(?:\[([1-9][0-9]{0,3})\])?")


class Side(msgspec.Struct, frozen=True):
    """A side column: its name and column type."""

    name: str
    type: str


class Items(msgspec.Struct, frozen=True, kw_only=True):
    """The items of a ragged field.

    Attributes:
        of: the image or mask whose pixels the coordinates count; None if they belong to none.
        fields: the fields of an item, the coordinates first; see `stoker.protocol.ragged`.
    """

    of: str | None
    fields: tuple[ItemField, ...]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A named, typed part of a sample.

    Attributes:
        name: an identifier.
        kind: the meaning of the field; decides how ops treat it.
        encoding: how the bytes are stored: `jpeg`, `png`, `encoded` (one of the two, recognized by
            its signature), `bands` (see `stoker.dataset.images.bands`), `planes` (JPEGs as bit
            planes, others as `encoded`), or `raw`.
        dtype: dtype of the decoded value.
        shape: shape of the decoded value; None for sides that differ between rows. Images are
            (H, W, 3), or have 1 to 16 channels if raw or in bands; masks are (H, W).
        bound: the largest extent of each side over all rows.
        classes: names of the values 0, 1, ... of a label, of a mask, of the `label` of boxes or of
            the `keypoint` of keypoints, if they have names.
        class_ids: the source's numbers for these classes, -1 without one; for people, and for
            writing results back.
        side: the field's side columns.
        items: for boxes and keypoints: their items; the shape is then (None, words of an item).
        referenced: for an index: whether the column holds references into the source's files.
        optional: whether samples may lack it; see `stoker.dataset.format.optional_fields`.
        fill: the number that an absent value consists of.
        relative: for an image or mask: whether its size may differ from that of the first image.
        vectors: for an image of float32: `flow` or `normals`, if its channels are components of
            vectors; see `stoker.ops.contract.vector_fields`.
        keeps_orientation: for an image or mask: whether its pixels are used as stored and EXIF is
            ignored; otherwise they are turned upright.
    """

    name: str
    kind: str
    encoding: str = "raw"
    dtype: str = "uint8"
    shape: tuple[int | None, ...] = ()
    bound: tuple[int, ...] = ()
    classes: tuple[str, ...] | None = None
    side: tuple[Side, ...] = ()
    items: Items | UnsetType = UNSET
    class_ids: tuple[int, ...] | UnsetType = UNSET
    referenced: bool | UnsetType = UNSET
    keeps_orientation: bool | UnsetType = UNSET
    optional: bool | UnsetType = UNSET
    fill: int | float | UnsetType = UNSET
    relative: bool | UnsetType = UNSET
    vectors: str | UnsetType = UNSET

    @property
    def meaning(self) -> str:
        """The kind that ops see: flow or normals for an image of vectors."""
        return self.vectors or self.kind

    @property
    def present_name(self) -> str:
        """The name of the bool scalar that says whether an optional field is present."""
        return f"{self.name}_present"

    @property
    def is_picture(self) -> bool:
        """True if it is an image or mask, whose rows have their own height and width."""
        return self.kind in PICTURES

    @property
    def fits_files(self) -> bool:
        """True if the pixels of an image or mask have the form of a decoded JPEG or PNG."""
        return self.dtype == "uint8" and self.shape[2:] in ((), (3,))

    @property
    def bound_bytes(self) -> int:
        """Bytes of the largest value."""
        return ITEM_BYTES[self.dtype] * math.prod(self.bound)

    @property
    def grid_column(self) -> str | None:
        """Name of the side column with the grids of its JPEGs, if it has one."""
        name = f"{self.name}.grid"
        return name if any(side.name == name for side in self.side) else None

    @property
    def has_parts(self) -> bool:
        """True if a box of an image or mask can be decoded without the rest."""
        return self.grid_column is not None or self.encoding == "bands"

    @property
    def class_part(self) -> ItemField | None:
        """The field of an item whose values are named by `classes`, if there is one."""
        if self.items is UNSET or self.classes is None:
            return None
        name = CLASS_PARTS[self.kind]
        return next((part for part in self.items.fields if part.name == name), None)

    @property
    def column_type(self) -> str:
        """The type of the field's own column."""
        if self.referenced:
            return REFERENCE_TYPE
        if self.is_picture or self.kind == "bytes":
            return "large_binary"
        if not self.shape:
            return self.dtype
        sides = ",".join("?" if side is None else str(side) for side in self.shape)
        return f"{self.dtype}[{sides}]"


class Schema(msgspec.Struct, frozen=True):
    """All fields, in order, and the side columns of the rows themselves."""

    fields: tuple[Field, ...]
    side: tuple[Side, ...] = ()

    def field(self, name: str) -> Field | None:
        """Return the field of that name, or None."""
        return next((field for field in self.fields if field.name == name), None)

    def columns(self) -> tuple[tuple[str, str], ...]:
        """Return (name, column type) of all columns, in file order."""
        found: list[tuple[str, str]] = []
        for field in self.fields:
            found.append((field.name, field.column_type))
            found += [(side.name, side.type) for side in field.side]
        return (*found, *((side.name, side.type) for side in self.side))


def column_type(name: str, kind: str) -> ColumnType:
    """Parse the type of a column.

    Raises:
        UsageError: the type is invalid; the message names the column.
    """
    try:
        return parse_type(kind)
    except ValueError as error:
        raise UsageError(f"column {name!r}: {error}") from None


def picture_field(
    name: str, kind: str, encoding: str, dtype: str = "uint8", channels: int = 3
) -> Field:
    """Return the field of images or masks, whose sizes are not known yet."""
    shape = (None, None, channels) if kind == "image" else (None, None)
    sides = [Side(f"{name}.height", "int32"), Side(f"{name}.width", "int32")]
    if encoding not in UPRIGHT:
        sides.append(Side(f"{name}.orientation", "uint8"))
    side = tuple(sides)
    return Field(name=name, kind=kind, encoding=encoding, dtype=dtype, shape=shape, side=side)
