"""Checks of a schema: names, kinds, encodings, bounds, classes and parts of items."""

import math
from collections.abc import Callable

import msgspec
import numpy as np
from msgspec import UNSET

from stoker.dataset.format.arrow import ITEM_BYTES
from stoker.dataset.format.fields import (
    ENCODINGS,
    FIELD_NAME,
    KINDS,
    MAX_CHANNELS,
    MAX_FIELDS,
    MAX_SIDE,
    PIXELS,
    PLANES,
    REFERABLE,
    UPRIGHT,
    VECTORS,
    Field,
    Schema,
    column_type,
    picture_field,
)
from stoker.protocol.errors import UsageError
from stoker.protocol.item_fields import (
    COORDINATES,
    COUNT,
    MAX_WIDTH,
    OFFSETS,
    WORD,
    ItemField,
    item_words,
)
from stoker.protocol.item_fields import MAX_FIELDS as MAX_ITEM_FIELDS

_NAMES = "a name of 1 to 128 characters A-Z, a-z, 0-9 and _, not a digit first"


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


def _check_field(field: Field) -> None:
    def expect(holds: bool, expected: str, got: object) -> None:
        if not holds:
            raise UsageError(f"field {field.name!r}: expected {expected}, got {got!r}")

    expect(bool(FIELD_NAME.fullmatch(field.name)), _NAMES, field.name)
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
    _check_vectors(field, expect)
    check_orientation(field)
    check_optional(field)
    if field.is_picture:
        model = picture_field(field.name, field.kind, field.encoding)
        raw = field.encoding in UPRIGHT
        dtypes = PIXELS[field.kind] if raw else ("uint8",)
        what = f"of kind {field.kind} and encoding {field.encoding}"
        expect(field.dtype in dtypes, f"dtype {' or '.join(dtypes)} {what}", field.dtype)
        channels = range(1, MAX_CHANNELS + 1) if raw else (3,)
        fits = len(field.shape) == len(model.shape) and all(
            side in channels for side in field.shape[2:]
        )
        last = (
            f", and {f'1 to {MAX_CHANNELS}' if raw else '3'} channels"
            if field.kind == "image"
            else ""
        )
        expect(fits, f"height and width{last} {what}", field.shape)
        _check_planes(field, expect)
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


def _check_planes(field: Field, expect: Callable[[bool, str, object], None]) -> None:
    fits = field.encoding != PLANES or (field.kind == "image" and field.grid_column is not None)
    expect(fits, "an image with a column of grids for the encoding planes", field.kind)


def _check_vectors(field: Field, expect: Callable[[bool, str, object], None]) -> None:
    if field.vectors is UNSET:
        return
    expect(field.vectors in VECTORS, f"vectors among {', '.join(VECTORS)}", field.vectors)
    form = (field.kind, field.dtype, field.shape[2:])
    count = VECTORS[field.vectors]
    expected = f"an image of float32 with {count} channels, the components of {field.vectors}"
    expect(form == ("image", "float32", (count,)), expected, form)


def check_orientation(field: Field) -> None:
    """Raise UsageError unless the field may keep the EXIF orientation of its files."""
    if field.keeps_orientation and not field.is_picture:
        raise UsageError(
            f"field {field.name!r}: only an image or mask has an orientation to keep, got a "
            f"{field.kind}"
        )


def check_optional(field: Field) -> None:
    """Raise UsageError unless an optional field has a fill of its dtype, if it needs one."""
    if not field.optional:
        return
    name = f"field {field.name!r}"
    if field.encoding == "jpeg" or field.referenced:
        raise UsageError(
            f"{name}: an optional image cannot have the encoding jpeg, nor any optional field be "
            "read in place, because a fill is stored otherwise; leave the encoding out, or pack it"
        )
    of_any_length = not field.is_picture and field.shape[:1] == (None,)
    if of_any_length != (field.fill is UNSET):
        raise UsageError(
            f"{name}: expected no fill for an optional {field.kind} of any length, which is empty "
            f"where it is absent, got {field.fill!r}"
            if of_any_length
            else f"{name}: expected a fill, the number that an absent {field.kind} consists of, as "
            "in fill=0, got none"
        )
    if field.fill is not UNSET and not _fits(field.dtype, field.fill):
        raise UsageError(f"{name}: expected a fill that fits {field.dtype}, got {field.fill!r}")


def _fits(dtype: str, fill: object) -> bool:
    if type(fill) is float:
        return "float" in dtype and math.isfinite(fill)
    if type(fill) is not int or dtype == "bool":
        return type(fill) is int and fill in (0, 1)
    return "float" in dtype or np.iinfo(dtype).min <= fill <= np.iinfo(dtype).max


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
        and all(FIELD_NAME.fullmatch(item.name) and item.dtype in ITEM_BYTES for item in items)
        and all(1 <= item.width <= MAX_WIDTH for item in items)
    )
    if not good or (field.dtype, field.shape) != (WORD, (None, item_words(items))):
        raise UsageError(
            f"field {field.name!r}: expected items of {name} (float32, {width} numbers) and up to "
            f"{MAX_ITEM_FIELDS - 1} fields with identifiers other than {COUNT} and {OFFSETS} as "
            f"names, in a shape of their words, got {msgspec.to_builtins(items)} in {field.shape}"
        )
