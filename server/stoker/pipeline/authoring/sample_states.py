"""Values that a caller in this process passes to a pipeline and receives from it.

Arrays are passed as they are; dtype, shape and name determine their kind, or the caller's `kinds`.
A mask keeps its numbers: whole numbers and bools become uint8, uint16 or int32 if they fit. Boxes
and keypoints are a dict of arrays: coordinates (n, 4) under `xyxy` or (n, 2) under `xy`, and any
other fields (n,) or (n, k). Results have the same form, and a row of a batch's `Ragged` is accepted
too. Arrays whose byte order is not the machine's are converted.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from stoker.ops.contract.rules import COLORS, FLOAT, SIGNED, WIDE
from stoker.ops.contract.states import IMAGE_KINDS, VECTORS, State, span_of, with_span
from stoker.pipeline.engine.interface import Engine
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.scaled_fields import stored_field
from stoker.protocol.errors import UsageError
from stoker.protocol.item_fields import COORDINATES, COUNT, DTYPES, ItemField
from stoker.protocol.masks import MASK_DTYPES, as_mask, is_mask_form
from stoker.protocol.output_forms import cut
from stoker.protocol.ragged import pack_items, unpack_items
from stoker.protocol.slot_layout import SIZE, Output
from stoker.rng.row import Row

_GIVEN: Final = ("image", "mask", *VECTORS, "label", "scalar", "array", "boxes", "keypoints")
_MASKS: Final = re.compile(r"mask|segm", re.IGNORECASE)
_IMAGES: Final = re.compile(r"image|img|photo|picture|frame|pixels|gray", re.IGNORECASE)
_NAMED: Final = ("label", "keypoints")
_CLASSES: Final = ("label", "keypoint")
LEAST_BOUND: Final = 8
"""Plans are made for 8, 16, 32, ... items, so that samples share them."""


def states_by_name(
    fields: Mapping[str, Any], kinds: Mapping[str, str] | None = None
) -> dict[str, State]:
    """Return the states of the fields of a sample.

    Args:
        fields: field name -> value.
        kinds: field name -> kind, for arrays whose kind does not follow from name and shape.

    Raises:
        UsageError: the kind of an array is not clear, or it does not fit the kind that was given.
    """
    kinds = kinds or {}
    for name, kind in kinds.items():
        if name not in fields or kind not in _GIVEN:
            raise UsageError(
                f"kinds: expected a field among {', '.join(fields)} and a kind among "
                f"{', '.join(_GIVEN)}, got {name!r}: {kind!r}"
            )
    return {name: state_of(value, name, kinds.get(name)) for name, value in fields.items()}


def with_classes(
    states: Mapping[str, State], classes: Mapping[str, Sequence[str]] | None
) -> Mapping[str, State]:
    """Return states whose labels and keypoints have the names of their numbers.

    Raises:
        UsageError: there is no such field, or the names are not a list of texts.
    """
    named = dict(states)
    for name, given in (classes or {}).items():
        texts = isinstance(given, list | tuple) and all(isinstance(one, str) for one in given)
        if name not in states or states[name].kind not in _NAMED or not texts:
            fits = ", ".join(one for one, state in states.items() if state.kind in _NAMED)
            raise UsageError(
                f"classes: expected a label or keypoints among {fits or 'the fields (none)'}, and "
                f"a list of texts, got {name!r}: {given!r}"
            )
        named[name] = dataclasses.replace(states[name], classes=tuple(given))
    return named


def state_of(value: Any, name: str = "", kind: str | None = None) -> State:
    """Return the state of a value: sides fixed, kind by dtype, rank and name, or by coordinates.

    uint8 (H, W, C) is an image, so is float32 with 1 to 4 channels; (H, W) uint8 is a mask; whole
    numbers or bools of (H, W) or (H, W, 1) whose name has mask or segm are a mask; a number is a
    label or scalar; a dict with `xyxy` is boxes, one with `xy` keypoints; everything else is an
    array.

    Raises:
        UsageError: a dict is neither boxes nor keypoints, an image or mask has no pixels, the kind
            of an array is not clear, or it does not fit the kind that was given.
    """
    if isinstance(value, Mapping):
        found, columns = _items(value)
        if kind not in (None, found):
            raise UsageError(f"kinds: {name!r}: expected a {kind}, got a dict of {found}")
        fields = tuple(
            ItemField(part, array.dtype.name, array.shape[1] if array.ndim == 2 else 1)
            for part, array in columns.items()
        )
        count = len(next(iter(columns.values())))
        return State.ragged(found, fields, max(LEAST_BOUND, 1 << (count - 1).bit_length()))
    array = np.asarray(value)
    dtype, shape = array.dtype.name, array.shape
    kind = _checked(name, kind, dtype, shape) if kind else _kind_of(name, dtype, shape)
    if kind in IMAGE_KINDS and 0 in shape:
        raise UsageError(f"expected pixels in the {kind}, got shape {shape}")
    if kind == "mask":
        return State.fixed(kind, MASK_DTYPES[dtype], shape[:2])
    if kind == "image" and len(shape) == 2:
        shape = (*shape, 1)
    state = State.fixed(kind, dtype, shape)
    return with_span(state, span_of(array)) if (kind, dtype) == ("image", "float32") else state


def _kind_of(name: str, dtype: str, shape: tuple[int, ...]) -> str:
    """Return the kind of an array that none was given for."""
    if not shape:
        return "label" if dtype.startswith(("int", "uint")) else "scalar"
    floats = dtype == "float32" and len(shape) == 3 and 1 <= shape[2] <= COLORS
    image = floats or (dtype == "uint8" and len(shape) == 3)
    named = _MASKS.search(name) is not None
    if named and is_mask_form(dtype, shape):
        return "mask"
    gray = dtype == "uint8" and shape[2:] == (1,) and not _IMAGES.search(name)
    if image and (named or gray):
        raise UsageError(
            f"field {name!r} is {dtype} of shape {shape}: this may be an image, which ops filter, "
            "or a mask, whose numbers never change; say which, as in "
            f'kinds={{"{name}": "{"image" if floats else "mask"}"}}'
            + (", or pass a mask as (H, W)" if is_mask_form(dtype, shape) else "")
        )
    if image:
        return "image"
    return "mask" if dtype == "uint8" and len(shape) == 2 else "array"


def _checked(name: str, kind: str, dtype: str, shape: tuple[int, ...]) -> str:
    """Return the kind that the caller gave.

    Raises:
        UsageError: the array cannot have it.
    """
    pixels = dtype in ("uint8", WIDE, SIGNED, FLOAT) and len(shape) in (2, 3)
    fits = {
        "image": (pixels, "uint8, uint16, int16 or float32 of (H, W, C) or (H, W)"),
        "mask": (is_mask_form(dtype, shape), "whole numbers or bools of (H, W) or (H, W, 1)"),
        **{
            vectors: (
                dtype == "float32" and len(shape) == 3 and shape[2] == count,
                f"float32 of (H, W, {count})",
            )
            for vectors, count in VECTORS.items()
        },
        "label": (not shape and dtype.startswith(("int", "uint")), "one whole number"),
        "scalar": (not shape, "one number"),
        "array": (bool(shape), "an array"),
    }
    good, expected = fits.get(kind, (False, "a dict of arrays, with xyxy or xy"))
    if not good:
        raise UsageError(f"kinds: {name!r}: a {kind} is {expected}, got {dtype} of shape {shape}")
    return kind


def form_of(value: Any) -> Hashable:
    """Return a key of a value's state; for an array, without making the state.

    An image of floats that leave 0 to 1 has another state than one that does not.
    """
    if type(value) is not np.ndarray:
        return state_of(value)
    scale = ""
    if value.dtype == np.float32 and value.ndim in (2, 3):
        scale = with_span(State.fixed("image", "float32", value.shape), span_of(value)).scale
    return value.dtype, value.shape, scale


def outputs_of(engine: Engine, row: Row, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Run one row; return its outputs as the caller receives them."""
    plan = engine.plan
    made = room_for(plan.outputs)
    engine.run(row, inputs_of(plan, fields), list(made.values()))
    return unpacked(plan.outputs, made)


def inputs_of(plan: Plan, fields: Mapping[str, Any]) -> list[np.ndarray]:
    """Return the fields of a sample in the form that an engine takes.

    Raises:
        UsageError: boxes or keypoints are outside the sample's images, if these have one size.
    """
    size = None
    states = dict(zip(plan.fields, plan.inputs, strict=True))
    if any(state.items for state in plan.inputs):
        pictures = (name for name, state in states.items() if state.kind in IMAGE_KINDS)
        sizes = {np.shape(fields[stored_field(name)])[:2] for name in pictures}
        size = sizes.pop() if len(sizes) == 1 else None
    return [_array(fields[stored_field(name)], state, size) for name, state in states.items()]


def room_for(outputs: Sequence[Output]) -> dict[str, np.ndarray]:
    """Return uninitialized arrays for outputs, by name."""
    return {output.name: np.zeros(output.shape, output.dtype) for output in outputs}


def unpacked(outputs: Sequence[Output], made: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return outputs as the caller receives them: boxes and keypoints as dicts, without counts."""
    found: dict[str, Any] = dict(made)
    for output in outputs:
        if output.has_sizes:
            size = found.pop(f"{output.name}.{SIZE}").tolist()
            found[output.name] = np.ascontiguousarray(cut(output, made[output.name], size))
        if output.items:
            count = int(found.pop(f"{output.name}.{COUNT}"))
            found[output.name] = unpack_items(output.items, made[output.name][:count])
    return found


def _array(value: Any, state: State, size: tuple[int, ...] | None) -> np.ndarray:
    if not state.items:
        if state.kind == "mask":
            try:
                return as_mask(state.dtype, np.asarray(value))
            except ValueError as error:
                raise UsageError(f"a mask: {error}") from None
        array = np.asarray(value, state.dtype)
        return array[..., None] if state.kind == "image" and array.ndim == 2 else array
    kind, columns = _items(value)
    if size is not None:
        _check_inside(kind, next(iter(columns.values())), size)
    return pack_items(state.items, columns)


def _items(value: Mapping[str, Any]) -> tuple[str, dict[str, np.ndarray]]:
    """Return kind and arrays of boxes or keypoints, the coordinates first, as float32.

    Raises:
        UsageError: there are no coordinates, they are not finite or have a negative size, or the
            arrays differ in length.
    """
    found = [(kind, *of) for kind, of in COORDINATES.items() if of[0] in value]
    if len(found) != 1:
        names = " or ".join(name for name, _ in COORDINATES.values())
        raise UsageError(
            f"expected a dict of arrays with {names}, got {', '.join(map(str, value))}"
        )
    kind, name, width = found[0]
    columns = {name: np.asarray(value[name], np.float32).reshape(-1, width)}
    _check_coordinates(kind, columns[name])
    columns |= {str(key): _part(key, part) for key, part in value.items() if key != name}
    count = len(columns[name])
    for key, array in columns.items():
        good = array.ndim in (1, 2) and len(array) == count and array.dtype.name in DTYPES
        if not good:
            raise UsageError(
                f"{kind}: {key}: expected {count} rows of numbers, one for each of {name}, got "
                f"{array.dtype} {array.shape}"
            )
    return kind, columns


def _part(name: str, value: Any) -> np.ndarray:
    """Return a part of items as an array; an empty list of classes has their dtype."""
    empty = isinstance(value, list | tuple) and not value
    return np.asarray(value, np.int64 if empty and name in _CLASSES else None)


def _check_coordinates(kind: str, at: np.ndarray) -> None:
    bad = ~np.isfinite(at).all(1)
    expected = "finite coordinates"
    if kind == "boxes" and not bad.any():
        bad = (at[:, 2:] < at[:, :2]).any(1)
        expected = "left <= right and top <= bottom"
    if bad.any():
        number = int(np.flatnonzero(bad)[0])
        raise UsageError(f"{kind}: expected {expected}, got {at[number].tolist()} at {number}")


def _check_inside(kind: str, at: np.ndarray, size: tuple[int, ...]) -> None:
    """Refuse coordinates that a dataset would refuse (`stoker.dataset.format.box_conversion`)."""
    height, width = size
    most = np.array([width, height] * (at.shape[1] // 2), np.float32)
    bad = ((at < 0) | (at > most)).any(1)
    if bad.any():
        number = int(np.flatnonzero(bad)[0])
        raise UsageError(
            f"{kind}: expected coordinates in an image of {height}x{width} pixels (height x "
            f"width), got {at[number].tolist()} at {number}; clip them or leave them out"
        )
