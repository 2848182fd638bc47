"""State rules that ops share: which images and masks the kernels of v1 handle.

image: (H, W, C) with 1 to 16 channels, of the dtypes that an op names: uint8, uint16, whose levels
reach 65535, int16 or float32. mask: (H, W) uint8, uint16 or int32 class numbers.
Values of one call must have the same size, because they share one decision.
"""

from typing import Final

from stoker.ops.contract.parameter_limits import MOST_CHANNELS
from stoker.ops.contract.states import State, StateError
from stoker.protocol.item_fields import ItemField

VISIBLE: Final = "visible_part"
"""The field of an item with the fraction of it that remains; 0 or 1 for a keypoint."""

MASK_DTYPES: Final = ("uint8", "uint16", "int32")
MAX_CHANNELS: Final = MOST_CHANNELS
COLORS: Final = 4
"""The most channels of an image whose channels may be colors and alpha."""
ANY_CHANNELS: Final = tuple(range(1, MAX_CHANNELS + 1))
ALPHA: Final = (1, 2, 3, 4)
"""Channels of an image that may be gray or colors, and alpha."""
GRAY_OR_RGB: Final = (1, 3)
RGB: Final = (3,)
WIDE: Final = "uint16"
"""Dtype of images with levels from 0 to 65535."""
SIGNED: Final = "int16"
"""Dtype of images whose numbers are not levels, such as the Hounsfield units of CT."""
WINDOW: Final = "ops.window(image, center=, width=)"
"""The call that makes floats from 0 to 1 of images of int16, for ops of levels or colors."""
FLOAT: Final = "float32"
"""Dtype of images of floats, whose levels are in [0, 1] if an op says so."""
UINT8: Final = ("uint8",)
"""Dtypes of images for an op of the 256 levels."""
LEVELS_FLOATS: Final = ("uint8", WIDE, FLOAT)
"""Dtypes of images for an op of levels of 8 and 16 bits, and of floats."""
ANY_DTYPE: Final = ("uint8", WIDE, SIGNED, FLOAT)
"""Dtypes of images for an op of any numbers."""
NO_COLORS: Final = "Leave the image out of this call: its channels are not colors"
TO_RGB: Final = "three channels; to_rgb makes them of gray, and drops alpha"


def refuse(op: str, expected: str, state: State, remedy: str) -> StateError:
    """Return the error for a state that an op has no rule for."""
    return StateError(
        f"{op} has no rule for {state}: expected {expected}. {remedy}", op=op, state=str(state)
    )


def require_pixels(
    op: str, states: tuple[State, ...], dtypes: tuple[str, ...], channels: tuple[int, ...]
) -> None:
    """Refuse images and masks of a dtype or shape without a rule, and values of different sizes.

    Args:
        op: the op's name.
        states: the states of the values of one call.
        dtypes: dtypes of images that the op has a rule for.
        channels: numbers of channels of images that it has a rule for.

    Raises:
        StateError: names op, state and what was expected.
    """
    for state in states:
        if state.kind == "image":
            require_image(op, state, dtypes, channels)
        elif state.kind == "mask" and (len(state.shape) != 2 or state.dtype not in MASK_DTYPES):
            raise refuse(
                op,
                f"a mask of shape (H, W) and dtype {', '.join(MASK_DTYPES)}",
                state,
                "Store class numbers in one of these",
            )
    for state in states[1:]:
        if state.is_fixed and states[0].is_fixed and state.shape[:2] != states[0].shape[:2]:
            raise StateError(
                f"{op}: expected values of one size in a call, got {states[0]} and {state}. "
                "If that is intended, call the op with relative=True; or resize one of them first",
                op=op,
            )


def require_image(
    op: str, state: State, dtypes: tuple[str, ...], channels: tuple[int, ...] = ANY_CHANNELS
) -> None:
    """Refuse an image of a dtype or number of channels without a rule.

    Raises:
        StateError: names op, state and what was expected.
    """
    count = state.shape[2] if len(state.shape) == 3 else None
    most = MAX_CHANNELS if channels in (GRAY_OR_RGB, RGB) else channels[-1]
    if state.dtype not in dtypes or count is None or not 1 <= count <= most:
        remedy = f"Call {op} before the image is converted"
        if count is not None and most < count <= MAX_CHANNELS:
            remedy = NO_COLORS
        if state.dtype == FLOAT:
            remedy += ", or call from_float before it, or before what contains it (as rand_augment)"
        if state.dtype == WIDE and WIDE not in dtypes:
            remedy = f"Call to_float before {op}"
            if FLOAT not in dtypes:
                remedy = (
                    f"It works with the 256 levels of uint8. {remedy}, and from_float after that"
                )
        if state.dtype == SIGNED and SIGNED not in dtypes:
            remedy = f"Its numbers are not levels: call {WINDOW} before {op}"
            remedy += "" if FLOAT in dtypes else ", and from_float after that"
        expected = f"an image of shape (H, W, C), dtype {' or '.join(dtypes)} and 1 to {most}"
        raise refuse(op, f"{expected} channels", state, remedy)
    if count not in channels and channels == RGB:
        raise refuse(op, "an image of 3 channels", state, f"Call {op} where the image has {TO_RGB}")
    if count not in channels:
        expected = "an image of 1 (gray) or 3 channels (red, green, blue)"
        remedy = NO_COLORS if count > COLORS else "Drop the other channels first"
        raise refuse(op, expected, state, remedy)


def float_first(op: str, state: State, otherwise: str) -> str:
    """Return the remedy for pixels that an op cannot average: floats, for images of 16 bits."""
    dtype = state.dtype if state.kind == "image" else ""
    first = {WIDE: f"Call to_float before {op}", SIGNED: f"Call {WINDOW} before {op}"}
    return first.get(dtype, otherwise)


def remedy_of(state: State) -> str:
    """Return what to change about a value whose kind has no rule.

    An array may be a mask, boxes or keypoints whose kind was never declared. Leaving it out of the
    call would then pair it with a changed image, so the remedy names the declarations first.
    """
    leave = f"eave the {state.kind} out of this call"
    other = f"If it does not belong to the image, l{leave}"
    sides = state.shape if state.kind == "array" else ()
    one = len(sides) == 3 and sides[2] == 1
    if one or (len(sides) == 2 and sides[1] not in (2, 4)):
        sixteen = state.dtype in (WIDE, SIGNED)
        return f"{_declare('mask')} {_declare('image') + ' ' if sixteen else ''}{other}"
    if len(sides) == 2:
        kind, key = ("boxes", "xyxy") if sides[1] == 4 else ("keypoints", "xy")
        return (
            f'If these are {kind}, store them as a dict, {{"{key}": array}}, or declare them with '
            f"schema.{kind}(NAME). If they do not belong to the image, l{leave}"
        )
    if len(sides) == 3:
        return f"{_declare('image')} {other}"
    return f"L{leave}"


def _declare(kind: str) -> str:
    a = "an" if kind == "image" else "a"
    return (
        f"If it is {a} {kind}, declare it: pack with --field NAME={kind}, give a live source "
        f'schema.{kind}(NAME), or call the pipeline with kinds={{NAME: "{kind}"}}.'
    )


def visible_word(state: State) -> int:
    """Return the index of the word in an item that holds `visible_part`; 0 without the field."""
    end = 0
    for field in state.items:
        if field == ItemField(VISIBLE, "float32"):
            return end
        end += field.words
    return 0
