"""The schema of a dataset: which fields its samples have, and the columns of each field.

A **field** is one column of the same name and, if its kind needs them, side columns
(`image.height`, `image.width`, `image.orientation`), so that planning never opens a file. The row
columns `stoker.digest` and `stoker.source` belong to no field. Specified in
docs/contracts/dataset.md; a new encoding or side column needs no new format version.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET

from stoker.dataset.format.arrow import ITEM_BYTES
from stoker.dataset.format.field_checks import check_optional, check_orientation
from stoker.dataset.format.fields import (
    ITEM_TYPE,
    REFERABLE,
    VECTORS,
    Field,
    Items,
    Schema,
    Side,
    picture_field,
)
from stoker.protocol.errors import UsageError
from stoker.protocol.item_fields import (
    COORDINATES,
    WORD,
    ItemField,
    item_words,
)

__all__ = [
    "Field",
    "Schema",
    "array",
    "blob",
    "bounded",
    "boxes",
    "encoded_as",
    "flow",
    "image",
    "keep_orientation",
    "keypoints",
    "label",
    "mask",
    "may_have_grid",
    "normals",
    "optional",
    "referenced",
    "relative",
    "scalar",
    "with_classes",
    "with_grid",
]  # fmt: skip


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
        encoding: raw, jpeg, png, encoded for either of the two, bands, or planes: encoded, with
            JPEGs as bit planes, which decode faster.
        grid: whether JPEGs are rewritten, with the same pixels, so that crops decode faster.
        dtype: uint8; or, raw or in bands, uint16 for levels from 0 to 65535, int16 for
            numbers that are not levels, such as Hounsfield units, and float32 for images of
            floats, see `stoker.ops.to_float`.
        channels: C, 1 to 16; must be 3 unless images are raw or in bands.
    """
    field = picture_field(name, "image", encoding, dtype, channels)
    return with_grid(field) if grid or encoding == "planes" else field


def flow(name: str = "flow", encoding: str = "raw") -> Field:
    """Declare optical flow: (H, W, 2) float32, the displacement (dx, dy) of each pixel.

    dx is in pixels to the right, dy in pixels down. Ops that move the pixels change both components
    accordingly; see docs/guides/flow-and-normals.md.

    Args:
        name: an identifier.
        encoding: raw, or bands for compressed bands of rows.
    """
    return _vectors(name, encoding, "flow")


def normals(name: str = "normals", encoding: str = "raw") -> Field:
    """Declare surface normals: (H, W, 3) float32, (nx, ny, nz) with x to the right and y down.

    Args:
        name: an identifier.
        encoding: raw, or bands for compressed bands of rows.
    """
    return _vectors(name, encoding, "normals")


def _vectors(name: str, encoding: str, what: str) -> Field:
    field = picture_field(name, "image", encoding, "float32", VECTORS[what])
    return msgspec.structs.replace(field, vectors=what)


def with_grid(field: Field) -> Field:
    """Return an image field with a column of grids, see docs/contracts/jpeg-grid.md.

    Raises:
        UsageError: the field's encoding has no JPEGs.
    """
    if not may_have_grid(field):
        raise UsageError(
            f"field {field.name!r}: only images that may be JPEGs can have grids, got "
            f"kind {field.kind} of encoding {field.encoding}; leave grid out"
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
    check_orientation(kept)
    return kept


def optional(field: Field, fill: float | None = None) -> Field:
    """Return a field that samples may lack; its value is then None or missing in the row.

    The dataset gets a bool scalar NAME_present, which conditions can read: `sample.mask_present`.

    Args:
        field: any field except an image of encoding jpeg.
        fill: the number that an absent image, mask, label, scalar or array of a fixed shape
            consists of, such as 255 for a mask and -1 for a label. Boxes, keypoints, bytes and
            arrays of any length need none: they are empty.

    Raises:
        UsageError: the fill is missing, not needed, or does not fit the field.
    """
    made = msgspec.structs.replace(field, optional=True, fill=UNSET if fill is None else fill)
    check_optional(made)
    return made


def relative(field: Field) -> Field:
    """Return an image or mask whose size differs from that of the sample's first image.

    Ops take both in one call with `relative=True`.

    Raises:
        UsageError: the field is not an image or mask.
    """
    if not field.is_picture:
        raise UsageError(
            f"field {field.name!r}: only an image or mask can have a size relative to its image, "
            f"got a {field.kind}; leave relative out"
        )
    return msgspec.structs.replace(field, relative=True)


def may_have_grid(field: Field) -> bool:
    """Return whether a field holds images that may be JPEGs."""
    return field.kind == "image" and field.encoding in ("jpeg", "encoded", "planes")


def mask(name: str = "mask", encoding: str = "encoded", *, dtype: str = "uint8") -> Field:
    """Declare a mask field: (H, W); sizes are determined when rows are written.

    Args:
        name: an identifier.
        encoding: encoded or png to keep files as they are, bands for compressed bands of rows, so
            that crops decode faster, or raw.
        dtype: uint8; or uint16 or int32, raw or in bands.
    """
    return picture_field(name, "mask", encoding, dtype)


def encoded_as(field: Field, encoding: str) -> Field:
    """Return an image or mask field that is stored in another encoding."""
    model = picture_field(field.name, field.kind, encoding)
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
        found = ITEM_TYPE.fullmatch(text)
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
