"""The fields of a Python object, from its declaration or its first row."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stoker.dataset.format import schema
from stoker.dataset.format.box_conversion import FORMATS, RELATIVE
from stoker.dataset.format.fields import CLASS_PARTS
from stoker.dataset.format.optional_fields import how_to_declare
from stoker.dataset.images.codecs import signature
from stoker.dataset.sources.common.field_notation import (
    IGNORE,
    declare,
    is_optional,
    marks_of,
    plain_kind,
)
from stoker.protocol.errors import UsageError
from stoker.protocol.masks import MASK_DTYPES, is_mask_form

_MASK = re.compile(r"mask|segm", re.IGNORECASE)
_BOXES = re.compile(r"box(es)?$", re.IGNORECASE)
_NAMED = frozenset(["label", "class"])
_LABELS = frozenset(["label", "labels", "target", "targets", "class", "y"])


def fields_of(
    name: str, found: Any, first: Mapping[str, Any], asked: Mapping[str, str]
) -> tuple[schema.Field, ...]:
    """Return the fields that an object declares, or those of its first row.

    Args:
        name: the object's name, for errors.
        found: the object.
        first: its first row.
        asked: name -> KIND of `sources.declare`, to override the first row.

    Raises:
        UsageError: a value cannot be a field.
    """
    for one in asked.keys() - first.keys():
        if is_optional(asked[one]):
            continue
        raise UsageError(
            f"--field {one}={asked[one]}: rows of {name} have no such field, only "
            f"{', '.join(first)}"
        )
    declared = getattr(found, "fields", None)
    if declared is not None:
        if not all(isinstance(field, schema.Field) for field in declared):
            raise UsageError(
                f"{name}: expected `fields` made by stoker.dataset.schema, got {declared!r}"
            )
        return tuple(declared)
    classes = getattr(found, "classes", None)
    named = isinstance(classes, list | tuple) and all(isinstance(one, str) for one in classes)
    picture = next((key for key, value in first.items() if _is_image(key, value)), None)
    fields = []
    lacking = {key: None for key, kind in asked.items() if is_optional(kind)}
    for key, value in (lacking | dict(first)).items():
        kind = asked.get(key)
        if kind == IGNORE:
            continue
        if kind is None and isinstance(value, str) and key.lower() in _NAMED:
            field = _text_label(name, key, bool(named and classes))
        else:
            field = _asked(key, kind, value) if kind else _field(name, key, value, picture)
        part = CLASS_PARTS.get(field.kind)
        if part is not None and is_text(value.get(part)):
            field = _named_items(name, field, part, classes if named else None)
        if field.kind == "label" and named and classes:
            field = schema.with_classes(field, classes)
        fields.append(field)
    return tuple(fields)


def is_empty(value: Any) -> bool:
    """Return whether a value is an empty list, or a dict with one, which has no dtype."""
    if isinstance(value, Mapping):
        return any(map(is_empty, value.values()))
    if not isinstance(value, list | tuple | np.ndarray):
        return False
    array = np.asarray(value)
    return array.size == 0 and array.dtype == np.float64


def _text_label(name: str, key: str, named: bool) -> schema.Field:
    if not named:
        raise UsageError(
            f"{name}[0]: {key!r} is text: give the object its classes in the order of their "
            f'numbers, as in classes = ["cat", "dog"], or keep the text with --field {key}=text'
        )
    return schema.label(key)


def _asked(key: str, kind: str, value: Any) -> schema.Field:
    """Return the field of a KIND; pixels that do not fit Stoker's PNGs are stored raw."""
    if marks_of(kind):
        said = declare(key, kind, f"--field {key}={kind}")
        made = _asked(key, plain_kind(kind), value)
        marks = {"optional": said.optional, "fill": said.fill, "relative": said.relative}
        return msgspec.structs.replace(made, **marks)
    if _is_pil(value) and kind == "mask":
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        dtype, rank = value.dtype.name, value.ndim
        if kind == "image" and rank == 3 and (dtype, value.shape[2]) != ("uint8", 3):
            return schema.image(key, "raw", dtype=dtype, channels=value.shape[2])
        if kind == "mask" and is_mask_form(dtype, value.shape):
            return _mask(key, value)
    return declare(key, kind, f"--field {key}={kind}")


def _field(name: str, key: str, value: Any, picture: str | None) -> schema.Field:
    """Return the field for a value."""
    if value is None:
        raise UsageError(
            f"{name}[0]: {key!r} is None, so its kind is not known; if samples may lack it, "
            f"declare its kind and a fill, as in {how_to_declare(key, 'mask')}; or leave it "
            f"out with --field {key}={IGNORE}"
        )
    if _is_pil(value) and _MASK.search(key):
        value = np.asarray(value)
    if _is_picture(value):
        return schema.mask(key) if _MASK.search(key) else schema.image(key)
    if isinstance(value, Mapping):
        return _ragged(name, key, value, picture)
    if isinstance(value, bytes | str | Path):
        return schema.blob(key)
    array = np.asarray(value)
    if array.ndim and 0 in array.shape:
        raise UsageError(
            f"{name}[0]: {key!r} is empty, and so in all of the first rows: declare its dtype, as "
            f"in --field {key}=int64[?] for lists of any length, or leave it out with "
            f"--field {key}={IGNORE}"
        )
    if array.dtype.kind == "U" and array.ndim == 1:
        raise UsageError(
            f"{name}[0]: {key!r} is a list of texts: make it numbers, and declare --field "
            f"{key}=int64[?] for lists of any length; or leave it out with --field {key}={IGNORE}"
        )
    if array.dtype.kind not in "biuf":
        raise UsageError(
            f"{name}[0]: {key!r} is a {type(value).__name__}, which cannot be a field: "
            "expected pixels, a PIL image, a path, bytes, text, numbers, or a dict of boxes or "
            f"keypoints; or leave it out with --field {key}={IGNORE}"
        )
    if _BOXES.search(key) and array.ndim == 2 and array.shape[1] == 4:
        raise UsageError(
            f"{name}[0]: {key!r} is an array of shape {array.shape}, which may be boxes in several "
            'formats: make it a dict, {"xyxy": array}, {"xywh": array} or {"cxcywh": array}, '
            f"or keep plain numbers with --field {key}={array.dtype.name}[?,4]"
        )
    return _numbers(key, array)


def _mask(key: str, value: np.ndarray) -> schema.Field:
    """Return the field of masks whose first is an array."""
    dtype = MASK_DTYPES[value.dtype.name]
    return schema.mask(key) if dtype == "uint8" else schema.mask(key, "raw", dtype=dtype)


def _numbers(key: str, array: np.ndarray) -> schema.Field:
    if array.dtype == np.uint8 and array.ndim == 3 and array.shape[2] == 3:
        return schema.image(key)
    if is_mask_form(array.dtype.name, array.shape) and _MASK.search(key):
        return _mask(key, array)
    if array.ndim:
        return schema.array(key, array.dtype.name, array.shape)
    if array.dtype.kind in "iu" and key.lower() in _LABELS:
        return schema.label(key)
    return schema.scalar(key, array.dtype.name)


def _ragged(name: str, key: str, value: Mapping[str, Any], picture: str | None) -> schema.Field:
    for kind, make in (("boxes", schema.boxes), ("keypoints", schema.keypoints)):
        formats = {f"{before}{form}" for before in ("", RELATIVE) for form in FORMATS[kind]}
        if formats & value.keys():
            parts = {}
            for part in value.keys() - formats:
                classes = part == CLASS_PARTS[kind]
                parts[part] = _part(f"{name}[0]: {key!r}: {part!r}", value[part], classes)
            return make(key, {part: parts[part] for part in value if part in parts}, picture)
    raise UsageError(
        f"{name}[0]: {key!r} is a dict of {', '.join(map(str, value))}: expected boxes (xyxy, xywh "
        "or cxcywh) or keypoints (xy), optionally with the prefix relative_"
    )


def _part(what: str, value: Any, classes: bool) -> str:
    """Return the dtype of a field of an item; `classes`: it holds numbers or names of classes.

    Raises:
        UsageError: it is not known.
    """
    array = np.asarray(value)
    if classes and (is_text(value) or is_empty(value)):
        return "int64"
    if is_empty(value):
        raise UsageError(
            f"{what} is empty, and so in all of the first rows: give an array with its dtype, as "
            "in np.zeros(0, np.float32), or declare the object's `fields`"
        )
    return array.dtype.name + (f"[{array.shape[1]}]" if array.ndim > 1 else "")


def is_text(value: Any) -> bool:
    """Return whether a value is a list or array of texts."""
    return isinstance(value, list | tuple | np.ndarray) and np.asarray(value).dtype.kind == "U"


def _named_items(name: str, field: schema.Field, part: str, classes: Any) -> schema.Field:
    if not classes:
        raise UsageError(
            f"{name}[0]: {field.name!r}: {part!r} is text: give the object its classes in the "
            'order of their numbers, as in classes = ["cat", "dog"]'
        )
    return schema.with_classes(field, classes)


def _is_picture(value: Any) -> bool:
    """Return whether a value is an image under any name: a PIL image, or an image file."""
    if isinstance(value, bytes):
        return signature(value) is not None
    if isinstance(value, Path):
        with open(value, "rb") as file:
            return signature(file.read(16)) is not None
    return _is_pil(value)


def _is_pil(value: Any) -> bool:
    return type(value).__module__.startswith("PIL.")


def _is_image(key: str, value: Any) -> bool:
    array_like = isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 3
    return not _MASK.search(key) and (array_like or _is_picture(value))
