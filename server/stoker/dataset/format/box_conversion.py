"""Convert the boxes and keypoints of one sample to their stored form, from several formats.

They are stored as records of 32-bit words (`stoker.protocol.ragged`) with float32 coordinates in
pixels of the image they belong to: boxes as (left, top, right, bottom), keypoints as (x, y). The
first pixel covers 0 to 1; `pixel_xy` gives keypoints as indices of pixels instead. Impossible items
raise when they are written, so that ops need no such checks: numbers that are not finite, boxes of
negative size, and items outside their image.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import UNSET

from stoker.dataset.format.fields import Field
from stoker.dataset.format.number_conversion import exactly
from stoker.dataset.limits import CodecError
from stoker.protocol.item_fields import COORDINATES
from stoker.protocol.ragged import pack_items

FORMATS: Final = {"boxes": ("xyxy", "xywh", "cxcywh"), "keypoints": ("xy", "pixel_xy")}
RELATIVE: Final = "relative_"
PIXEL: Final = "pixel_xy"
HALF_PIXEL: Final = 0.5
"""A pixel index names the center of its pixel: index i is the coordinate i + 0.5."""
_EXAMPLES: Final = 3

Size = tuple[int, int]


def items_of(field: Field, value: object, size: Size | None) -> np.ndarray:
    """Return boxes or keypoints as they are stored, (n, words) uint32.

    Args:
        field: boxes or keypoints.
        value: a dict of arrays of n rows: the coordinates under the name of their format (boxes:
            xyxy, xywh or cxcywh; keypoints: xy, or pixel_xy as indices of pixels; in pixels, or
            with the prefix `relative_` as parts of width and height), and every other field of an
            item; or, if an item has no other fields, only the coordinates, in pixels, as xyxy or
            xy.
        size: (height, width) of the image they belong to, or None.

    Raises:
        CodecError: the value does not fit its field, or an item is impossible.
    """
    assert field.items is not UNSET
    native, width = COORDINATES[field.kind]
    given: Mapping[str, object] = value if isinstance(value, Mapping) else {native: value}
    others = {part.name: part for part in field.items.fields[1:]}
    formats = [f"{before}{name}" for before in ("", RELATIVE) for name in FORMATS[field.kind]]
    found = [name for name in formats if name in given]
    if len(found) != 1 or given.keys() != {*found, *others}:
        raise CodecError(
            f"expected one of {', '.join(formats)}, and {', '.join(others) or 'nothing else'}; got "
            f"{', '.join(map(str, given)) or 'nothing'}"
        )
    columns = {native: _coordinates(found[0], given[found[0]], width, size)}
    for name, part in others.items():
        tail = (part.width,) if part.width > 1 else ()
        columns[name] = _column(name, exactly(part.dtype, given[name]), len(columns[native]), tail)
    _check(field.kind, columns[native], size)
    _check_classes(field, columns)
    return pack_items(field.items.fields, columns)


def _column(name: str, array: np.ndarray, count: int, tail: tuple[int, ...]) -> np.ndarray:
    if array.size == 0 and count == 0:
        return array.reshape(0, *tail)
    if array.shape != (count, *tail):
        raise CodecError(f"{name}: expected shape {(count, *tail)}, got {array.shape}")
    return array


def _coordinates(form: str, value: object, width: int, size: Size | None) -> np.ndarray:
    """Return coordinates of a format as xyxy or xy in pixels, (n, width) float32."""
    array = exactly("float64", value)
    if array.size == 0:
        array = array.reshape(0, width)
    if array.ndim != 2 or array.shape[1] != width:
        raise CodecError(f"{form}: expected shape (n, {width}), got {array.shape}")
    if not np.isfinite(array).all():
        raise CodecError(f"{form}: expected finite numbers, got {_first(array, _unfinite(array))}")
    if form.startswith(RELATIVE):
        if size is None:
            raise CodecError(f"{form}: they belong to no image, so they cannot be relative to one")
        array = array * np.array([size[1], size[0]] * (width // 2), np.float64)
    form = form.removeprefix(RELATIVE)
    if form == PIXEL:
        array = _edge_coordinates(array, size)
    elif form == "xywh":
        array = np.hstack([array[:, :2], array[:, :2] + array[:, 2:]])
    elif form == "cxcywh":
        array = np.hstack([array[:, :2] - array[:, 2:] / 2, array[:, :2] + array[:, 2:] / 2])
    return exactly("float32", array)


def _edge_coordinates(indices: np.ndarray, size: Size | None) -> np.ndarray:
    """Return the coordinates of pixel indices; the index `width` itself becomes the right edge.

    Annotators place points on the edge, so files have indices up to half a pixel too large.
    """
    at: np.ndarray = indices + HALF_PIXEL
    if size is None:
        return at
    most = np.array([size[1], size[0]], np.float64)
    return np.where((at > most) & (indices <= most), most, at)


def _check(kind: str, at: np.ndarray, size: Size | None) -> None:
    """Reject impossible items; by now they are xyxy or xy in pixels."""
    if not np.isfinite(at).all():
        raise CodecError(f"a coordinate does not fit float32: {_first(at, _unfinite(at))}")
    if kind == "boxes":
        negative = np.any(at[:, 2:] < at[:, :2], axis=1)
        if negative.any():
            raise CodecError(
                f"a box has a negative size: (left, top, right, bottom) {_first(at, negative)}; "
                "give the corners in that order"
            )
    if size is not None:
        most = np.array([size[1], size[0]] * (at.shape[1] // 2), np.float32)
        outside = np.any((at < 0) | (at > most), axis=1)
        if outside.any():
            raise CodecError(
                f"{kind} are outside their image of {size[0]}x{size[1]} pixels (height x "
                f"width): {_first(at, outside)}; clip them or leave them out"
            )


def _check_classes(field: Field, columns: Mapping[str, np.ndarray]) -> None:
    """Reject labels without a name, if the field has names for its classes."""
    part = field.class_part
    if part is None or field.classes is None:
        return
    numbers = columns[part.name]
    strange = np.any((numbers < 0) | (numbers >= len(field.classes)))
    if strange:
        raise CodecError(
            f"{part.name}: expected classes from 0 to {len(field.classes) - 1}, got "
            f"{numbers.min()} to {numbers.max()}"
        )


def _unfinite(array: np.ndarray) -> np.ndarray:
    bad: np.ndarray = np.any(~np.isfinite(array), axis=1)
    return bad


def _first(array: np.ndarray, which: np.ndarray) -> str:
    places = np.flatnonzero(which)
    shown = [f"item {place}: {array[place].tolist()}" for place in places[:_EXAMPLES]]
    return ", ".join(shown) + (f" and {len(places) - _EXAMPLES} more" * (len(places) > _EXAMPLES))
