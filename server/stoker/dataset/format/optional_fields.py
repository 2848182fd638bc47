"""Optional fields: what is stored for a sample that lacks one.

An optional field named `mask` has a companion, the bool scalar `mask_present`, at the end of the
schema. Where the value is absent, the companion is false and the field holds its fill: an image or
mask of that number, in the size of the first image or mask that the sample has (otherwise 1x1);
a label, a scalar or an array of that number; or no items, bytes or elements for a
field of any length. So every sample has every field, and readers need no rule of their own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET

from stoker.dataset.format.cells import FieldError, deep_pixels
from stoker.dataset.format.fields import Field
from stoker.dataset.images.inspection import picture_size
from stoker.dataset.limits import CodecError
from stoker.protocol.item_fields import COORDINATES

Size = tuple[int, int]


def with_presence(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return declared fields and, at the end, the companions of those that are optional."""
    names = [field.present_name for field in fields if field.optional]
    return (*fields, *(Field(name=name, kind="scalar", dtype="bool") for name in names))


def declared(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return fields without the companions of those that are optional."""
    companions = {field.present_name for field in fields if field.optional}
    return tuple(field for field in fields if field.name not in companions)


def how_to_declare(name: str, kind: str) -> str:
    """Return what a user writes so that samples may lack a field.

    Args:
        name: the user's name for it, as in `--field NAME=KIND`.
        kind: the kind of the field, or KIND.
    """
    if kind in COORDINATES:
        return f"schema.optional(schema.{kind}({name!r})) among the fields"
    if kind in ("text", "bytes") or "[?" in kind:
        return f"--field {name}={kind},optional, or schema.optional(...) in a schema"
    fill = _USUAL.get(kind.partition("[")[0], 0)
    return f"--field {name}={kind},fill={fill}, or schema.optional(..., fill={fill}) in a schema"


def kind_of(field: Field) -> str:
    """Return the KIND of a field, as in `--field NAME=KIND`; its kind for boxes and keypoints."""
    if field.kind in ("scalar", "array"):
        return field.column_type
    if field.vectors:
        return field.vectors
    wide = field.is_picture and field.dtype != "uint8"
    return f"{field.kind}[{field.dtype}]" if wide else field.kind


_USUAL = {"mask": 255, "label": -1}


def fill_absent(
    fields: Sequence[Field], values: Mapping[str, Any], size: Size | None = None
) -> dict[str, Any]:
    """Return the values of a row with fills for absent ones, and its companions.

    Args:
        fields: all fields of the schema.
        values: a value for each declared field; None, or no value, if it is absent.
        size: (height, width) of the sample's first image or mask, if that is not among the fields.

    Raises:
        FieldError: a field that is not optional is absent; or a fill has the size of an image that
            cannot be read.
    """
    row = {field.name: values.get(field.name) for field in declared(fields)}
    for field in declared(fields):
        if field.optional:
            row[field.present_name] = row[field.name] is not None
        elif row[field.name] is None:
            raise FieldError(
                field.name,
                "its value is absent; if samples may lack it, declare a fill: "
                f"{how_to_declare(field.name, kind_of(field))}",
            )
    for field in declared(fields):
        if row[field.name] is None:
            if field.is_picture and size is None:
                size = _size_of_sample(fields, values)
            row[field.name] = _fill(field, size)
    return row


def _fill(field: Field, size: Size | None) -> Any:
    if field.kind in COORDINATES:
        assert field.items is not UNSET
        parts = field.items.fields
        return {p.name: np.zeros((0, p.width) if p.width > 1 else 0, p.dtype) for p in parts}
    if field.kind == "bytes":
        return b""
    if field.is_picture:
        assert size is not None
        return np.full((*size, *field.shape[2:]), field.fill, field.dtype)
    shape = tuple(side or 0 for side in field.shape)
    return np.full(shape, 0 if field.fill is UNSET else field.fill, field.dtype)


def _size_of_sample(fields: Sequence[Field], values: Mapping[str, Any]) -> Size:
    """Return (height, width) of the first image or mask that is present, 1x1 without one."""
    for field in fields:
        value: Any = values.get(field.name)
        if not field.is_picture or value is None:
            continue
        try:
            if not field.fits_files:
                value = deep_pixels(field, value)
            if isinstance(value, np.ndarray):
                return value.shape[0], value.shape[1]
            return picture_size(bytes(memoryview(value)), bool(field.keeps_orientation))
        except (CodecError, TypeError, IndexError) as error:
            raise FieldError(field.name, str(error)) from None
    return 1, 1
