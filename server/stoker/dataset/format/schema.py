"""The schema of a dataset: which fields its samples have, and the columns of each field.

A **field** is one column of the same name and, if its kind needs them, side columns
(`image.height`, `image.width`, `image.orientation`), so that planning never opens a file. The row
columns `stoker.digest` and `stoker.source` belong to no field. Specified in
docs/contracts/dataset.md; a new encoding or side column needs no new format version.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from stoker.dataset.format.arrow import ITEM_BYTES, ColumnType, parse_type
from stoker.protocol.errors import UsageError
from stoker.protocol.items import (
    COORDINATES,
    COUNT,
    MAX_WIDTH,
    OFFSETS,
    WORD,
    ItemField,
    item_words,
)
from stoker.protocol.items import MAX_FIELDS as MAX_ITEM_FIELDS

KINDS = ("image", "mask", "boxes", "keypoints", "label", "scalar", "array", "bytes")
ENCODINGS = ("raw", "jpeg", "png", "encoded", "bands")
UPRIGHT = ("raw", "bands")
"""Encodings whose pixels are upright; the others may have an EXIF orientation."""
PICTURES = ("image", "mask")
PIXELS = {"image": ("uint8", "float32"), "mask": ("uint8", "uint16", "int32")}
"""dtypes of pixels; those other than uint8 are stored raw or in bands."""
MAX_CHANNELS = 4
CLASS_PARTS = {"boxes": "label", "keypoints": "keypoint"}
"""Kind -> the field of an item whose values may have names."""
MAX_FIELDS = 256
MAX_SIDE = 2**31 - 1
DIGEST = "stoker.digest"
DIGEST_TYPE = "fixed_size_binary[16]"
SOURCE = "stoker.source"
SOURCE_TYPE = "large_utf8"
REFERENCE_TYPE = "uint32[4]"
"""A reference: file, length in bytes, and offset in bytes, low word first."""
REFERABLE = ("image", "mask", "bytes", "array")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_ITEM = re.compile(r"([a-z]+[0-9]*)(?:\[([1-9][0-9]{0,3})\])?")


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
            its signature), `bands` (see `stoker.dataset.images.bands`), or `raw`.
        dtype: dtype of the decoded value.
        shape: shape of the decoded value; None for sides that differ between rows. Images are
            (H, W, 3), or have 1 to 4 channels if raw or in bands; masks are (H, W).
        bound: the largest extent of each side over all rows.
        classes: names of the values 0, 1, ... of a label, of a mask, of the `label` of boxes or of
            the `keypoint` of keypoints, if they have names.
        class_ids: the source's numbers for these classes, -1 if it has none; for people, and for
            writing results back.
        side: the field's side columns.
        items: for boxes and keypoints: their items; the shape is then (None, words of an item).
        referenced: for an index: whether the column holds references into the source's files.
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

    @property
    def is_picture(self) -> bool:
        """Whether it is an image or mask, whose rows have their own height and width."""
        return self.kind in PICTURES

    @property
    def fits_files(self) -> bool:
        """Whether the pixels of an image or mask have the form of a decoded JPEG or PNG."""
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
        """Whether a box of an image or mask can be decoded without the rest."""
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


def image(
    name: str = "image",
    encoding: str = "encoded",
    *,
    grid: bool = False,
    dtype: str = "uint8",
    channels: int = 3,
) -> Field:
    """Declare an image field: (H, W, C); sizes are determined when rows are written.

    Args:
        name: an identifier.
        encoding: raw, jpeg, png, encoded for either of the two, or bands.
        grid: whether JPEGs are rewritten, with the same pixels, so that crops decode faster.
        dtype: uint8; or float32 for images of floats, raw or in bands, see `stoker.ops.to_float`.
        channels: C, 1 to 4; must be 3 unless images are raw or in bands.
    """
    field = _picture(name, "image", encoding, dtype, channels)
    return with_grid(field) if grid else field


def with_grid(field: Field) -> Field:
    """Return an image field with a column of grids, see docs/contracts/jpeg-grid.md.

    Raises:
        UsageError: the field's encoding has no JPEGs.
    """
    if not may_have_grid(field):
        raise UsageError(
            f"field {field.name!r}: only images that may be JPEGs can have grids, got a "
            f"{field.kind} of encoding {field.encoding}; leave grid out"
        )
    side = Side(f"{field.name}.grid", "large_binary")
    return msgspec.structs.replace(field, side=(*field.side, side))


def bounded(field: Field, *sides: int, fixed: bool = False) -> Field:
    """Return a field of samples that are not known yet, with a bound on their size.

    Args:
        field: a field with open first sides: image, mask, array, boxes, keypoints or bytes.
        sides: the largest extent of each open side: height and width of an image or mask, otherwise
            one length.
        fixed: whether every sample has exactly that size.

    Raises:
        UsageError: the field has another number of open sides, or a side is not an integer from 1.
    """
    count = sum(side is None for side in field.shape)
    if len(sides) != count or not all(type(side) is int and side >= 1 for side in sides):
        raise UsageError(
            f"field {field.name!r} has {count} open sides, so expected as many integers from 1, "
            f"got {sides}"
        )
    bound = (*sides, *(side or 0 for side in field.shape[count:]))
    return msgspec.structs.replace(field, bound=bound, shape=bound if fixed else field.shape)


def referenced(field: Field) -> Field:
    """Return the field as in an index, where large values stay in the source's files."""
    return msgspec.structs.replace(field, referenced=True) if field.kind in REFERABLE else field


def keep_orientation(field: Field) -> Field:
    """Return an image or mask field whose pixels are used as stored, ignoring EXIF.

    Raises:
        UsageError: the field is not an image or mask.
    """
    kept = msgspec.structs.replace(field, keeps_orientation=True)
    _check_orientation(kept)
    return kept


def may_have_grid(field: Field) -> bool:
    """Whether a field holds images that may be JPEGs."""
    return field.kind == "image" and field.encoding in ("jpeg", "encoded")


def mask(name: str = "mask", encoding: str = "encoded", *, dtype: str = "uint8") -> Field:
    """Declare a mask field: (H, W); sizes are determined when rows are written.

    Args:
        name: an identifier.
        encoding: encoded or png to keep files as they are, bands for compressed bands of rows, so
            that crops decode faster, or raw.
        dtype: uint8; or uint16 or int32, raw or in bands.
    """
    return _picture(name, "mask", encoding, dtype)


def encoded_as(field: Field, encoding: str) -> Field:
    """Return an image or mask field that is stored in another encoding."""
    model = _picture(field.name, field.kind, encoding)
    return msgspec.structs.replace(field, encoding=encoding, side=model.side)


def label(name: str = "label", classes: tuple[str, ...] | None = None) -> Field:
    """Declare a label: an int64, with the names of its values if they have names."""
    return Field(name=name, kind="label", dtype="int64", classes=classes)


def with_classes(
    field: Field, classes: Sequence[str], class_ids: Sequence[int] | None = None
) -> Field:
    """Return a label, mask, boxes or keypoints field whose values have names; see `Field`."""
    ids = UNSET if class_ids is None else tuple(class_ids)
    return msgspec.structs.replace(field, classes=tuple(classes), class_ids=ids)


def scalar(name: str, dtype: str = "float32") -> Field:
    """Declare a scalar."""
    return Field(name=name, kind="scalar", dtype=dtype)


def array(name: str, dtype: str, shape: tuple[int | None, ...]) -> Field:
    """Declare an array; its first side may be None if it differs between rows."""
    return Field(name=name, kind="array", dtype=dtype, shape=shape)


def blob(name: str) -> Field:
    """Declare a field of plain bytes, of any length."""
    return Field(name=name, kind="bytes", shape=(None,))


def boxes(
    name: str = "boxes", fields: Mapping[str, str] | None = None, of: str | None = "image"
) -> Field:
    """Declare boxes, any number per sample.

    Args:
        name: an identifier.
        fields: other fields of each box: name -> dtype, or dtype[n] for n values.
        of: the image or mask whose pixels the coordinates count; None if they belong to none.
    """
    return _ragged(name, "boxes", fields or {}, of)


def keypoints(
    name: str = "keypoints", fields: Mapping[str, str] | None = None, of: str | None = "image"
) -> Field:
    """Declare keypoints, any number per sample; the arguments are those of `boxes`."""
    return _ragged(name, "keypoints", fields or {}, of)


def _ragged(name: str, kind: str, fields: Mapping[str, str], of: str | None) -> Field:
    coordinates, width = COORDINATES[kind]
    items = [ItemField(coordinates, "float32", width)]
    for part, text in fields.items():
        found = _ITEM.fullmatch(text)
        if found is None or found[1] not in ITEM_BYTES:
            raise UsageError(
                f"field {name!r}: {part!r}: expected a dtype, or dtype[n], such as 'int64' or "
                f"'float32[3]', got {text!r}"
            )
        items.append(ItemField(part, found[1], int(found[2] or 1)))
    return Field(
        name=name,
        kind=kind,
        dtype=WORD,
        shape=(None, item_words(items)),
        items=Items(of=of, fields=tuple(items)),
    )


def _picture(name: str, kind: str, encoding: str, dtype: str = "uint8", channels: int = 3) -> Field:
    shape = (None, None, channels) if kind == "image" else (None, None)
    sides = [Side(f"{name}.height", "int32"), Side(f"{name}.width", "int32")]
    if encoding not in UPRIGHT:
        sides.append(Side(f"{name}.orientation", "uint8"))
    side = tuple(sides)
    return Field(name=name, kind=kind, encoding=encoding, dtype=dtype, shape=shape, side=side)


def check_schema(schema: Schema) -> None:
    """Check names, kinds, types and shapes, and that no column is named twice.

    Raises:
        UsageError: a field is impossible; the message names it.
    """
    if not 1 <= len(schema.fields) <= MAX_FIELDS:
        raise UsageError(f"expected 1 to {MAX_FIELDS} fields in a schema, got {len(schema.fields)}")
    for field in schema.fields:
        _check_field(field)
    seen: set[str] = set()
    for name, kind in schema.columns():
        if name in seen:
            raise UsageError(f"column {name!r} is named twice; choose another name for one of them")
        seen.add(name)
        column_type(name, kind)
    for field in schema.fields:
        if field.items is not UNSET and field.items.of is not None:
            picture = schema.field(field.items.of)
            if picture is None or not picture.is_picture:
                raise UsageError(
                    f"field {field.name!r}: expected the name of an image or mask, whose pixels "
                    f"its coordinates count, got {field.items.of!r}; give of= another name, or None"
                )


def column_type(name: str, kind: str) -> ColumnType:
    """Parse the type of a column.

    Raises:
        UsageError: the type is invalid; the message names the column.
    """
    try:
        return parse_type(kind)
    except ValueError as error:
        raise UsageError(f"column {name!r}: {error}") from None


def _check_field(field: Field) -> None:
    def expect(holds: bool, expected: str, got: object) -> None:
        if not holds:
            raise UsageError(f"field {field.name!r}: expected {expected}, got {got!r}")

    expect(bool(_NAME.fullmatch(field.name)), "an identifier as its name", field.name)
    referable = field.kind in REFERABLE and field.encoding != "bands" and field.grid_column is None
    expect(
        not field.referenced or referable, "a value that is stored unchanged in a file", field.kind
    )
    expect(field.kind in KINDS, f"a kind among {', '.join(KINDS)}", field.kind)
    expect(field.encoding in ENCODINGS, f"one of {', '.join(ENCODINGS)}", field.encoding)
    expect(field.dtype in ITEM_BYTES, f"a dtype among {', '.join(ITEM_BYTES)}", field.dtype)
    sides = [side for side in field.shape if side is not None]
    expect(all(1 <= side <= MAX_SIDE for side in sides), f"sides of 1 to {MAX_SIDE}", field.shape)
    expect(all(0 <= side <= MAX_SIDE for side in field.bound), "bounds from 0", field.bound)
    _check_classes(field, expect)
    _check_orientation(field)
    if field.is_picture:
        model = _picture(field.name, field.kind, field.encoding)
        raw = field.encoding in UPRIGHT
        dtypes = PIXELS[field.kind] if raw else ("uint8",)
        what = f"of kind {field.kind} and encoding {field.encoding}"
        expect(field.dtype in dtypes, f"dtype {' or '.join(dtypes)} {what}", field.dtype)
        channels = range(1, MAX_CHANNELS + 1) if raw else (3,)
        fits = len(field.shape) == len(model.shape)
        fits = fits and all(side in channels for side in field.shape[2:])
        last = f", and {'1 to 4' if raw else '3'} channels" if field.kind == "image" else ""
        expect(fits, f"height and width{last} {what}", field.shape)
        expect(set(model.side) <= set(field.side), f"side columns {model.side}", field.side)
        return
    expect(field.encoding == "raw", f"encoding raw of kind {field.kind}", field.encoding)
    if field.kind in ("label", "scalar"):
        expect(field.shape == (), f"shape () of kind {field.kind}", field.shape)
    expect(field.kind != "label" or field.dtype == "int64", "dtype int64 of a label", field.dtype)
    if field.kind == "bytes":
        expect((field.dtype, field.shape) == ("uint8", (None,)), "uint8 (None,)", field.shape)
    if field.kind == "array":
        fits = len(field.shape) >= 1 and None not in field.shape[1:]
        expect(fits, "a shape in which only the first side may be None", field.shape)
    expect((field.items is not UNSET) == (field.kind in COORDINATES), "items", field.items)
    if field.items is not UNSET:
        _check_items(field, field.items.fields)


def _check_orientation(field: Field) -> None:
    if field.keeps_orientation and not field.is_picture:
        raise UsageError(
            f"field {field.name!r}: only an image or mask has an orientation to keep, got a "
            f"{field.kind}"
        )


def _check_classes(field: Field, expect: Callable[[bool, str, object], None]) -> None:
    if field.classes is not None:
        named = field.kind in ("label", "mask") or field.class_part is not None
        expect(named, "classes only for a label, a mask, or labels of items", field.classes)
    if field.class_ids is not UNSET:
        as_many = field.classes is not None and len(field.class_ids) == len(field.classes)
        expect(as_many, "a number for each class", field.class_ids)


def _check_items(field: Field, items: tuple[ItemField, ...]) -> None:
    name, width = COORDINATES[field.kind]
    names = [item.name for item in items]
    good = (
        1 <= len(items) <= MAX_ITEM_FIELDS
        and items[0] == ItemField(name, "float32", width)
        and len({*names, COUNT, OFFSETS}) == len(names) + 2
        and all(_NAME.fullmatch(item.name) and item.dtype in ITEM_BYTES for item in items)
        and all(1 <= item.width <= MAX_WIDTH for item in items)
    )
    if not good or (field.dtype, field.shape) != (WORD, (None, item_words(items))):
        raise UsageError(
            f"field {field.name!r}: expected items of {name} (float32, {width} numbers) and up to "
            f"{MAX_ITEM_FIELDS - 1} fields with identifiers other than {COUNT} and {OFFSETS} as "
            f"names, in a shape of their words, got {msgspec.to_builtins(items)} in {field.shape}"
        )
