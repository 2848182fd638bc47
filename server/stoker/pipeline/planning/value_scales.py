"""The meaning of an image's numbers: levels, floats from 0 to 1, or normalized floats.

An image of uint8 has levels, one of uint16 has levels of 16 bits, one of float32 has floats from 0
to 1, unless `State.scale` says that it was normalized, or stored with other floats. `layout`,
`stack` and float16 make arrays of images: their states keep the scale, so that branches join them
by their meaning. A state without a scale is joined by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stoker.ops.bases.fills import Fills
from stoker.ops.color.channel_drop import ChannelDrop
from stoker.ops.contract.op import Op
from stoker.ops.contract.rules import FLOAT, SIGNED, WINDOW
from stoker.ops.contract.states import (
    LEVELS,
    LEVELS16,
    NORMALIZED,
    OTHER,
    UNIT,
    UNKNOWN,
    State,
    StateError,
)
from stoker.ops.values.cast import Cast
from stoker.ops.values.clip import Clip
from stoker.ops.values.layout import Layout
from stoker.ops.values.normalize import Normalize
from stoker.ops.values.to_float import ToFloat
from stoker.ops.values.window import Window
from stoker.protocol.errors import BuildError

FAR = 16.0
"""Floats beyond it were surely not from 0 to 1."""
SCALES = {"uint8": LEVELS, "uint16": LEVELS16, "int16": OTHER, "float32": UNIT}
"""Dtype of an image -> the meaning of its numbers."""
TOLD = {
    LEVELS: "levels from 0 to 255",
    LEVELS16: "levels from 0 to 65535",
    UNIT: "floats from 0 to 1",
}
"""Meanings that numbers of int16 cannot join, in words."""
KEEPING = frozenset({"cast", "layout", "stack"})


def scale_of(state: State) -> str:
    """Return what the numbers of a state mean; empty if that is not known."""
    if state.kind != "image" or state.scale not in ("", UNKNOWN):
        return state.scale
    return SCALES.get(state.dtype, "")


def scaled(op: Op, given: State, result: State) -> State:
    """Return the state of a result with the scale that an op gives it.

    Raises:
        StateError: the image was normalized or stored with other floats, and the op expects levels
            or floats from 0 to 1; or it has floats from 0 to 1, and the op's fill or bounds do not.
    """
    before = scale_of(given)
    if before == OTHER and op.clips_floats:
        raise StateError(
            f"{op.name} expects floats from 0 to 1, and would clip the others or take them for "
            f"colors, but the image has floats {_span(given)}in the dataset: bring them to 0 to 1 "
            "before, with ops.window(image, center=, width=) or an op of your own (ops.define). "
            f"ops.normalize takes any floats; leave out {op.name} then",
            op=op.name,
            state=str(given),
        )
    if before == NORMALIZED and (op.of_levels or isinstance(op, Window)):
        expected = "levels, or floats from 0 to 1" if op.of_levels else "the image's own numbers"
        raise StateError(
            f"{op.name} expects {expected}, but the image was normalized: call "
            f"{op.name} before normalize",
            op=op.name,
            state=str(given),
        )
    if before == UNIT and given.scale != UNKNOWN:
        if isinstance(op, Fills | ChannelDrop):
            _check_fill(op, given)
        if isinstance(op, Clip | Window):
            _check_range(op, given)
    if isinstance(op, Normalize):
        check_normalize(op, given)
    scale = _scale_after(op, given, result)
    return replace(result, scale=scale, planar=_is_planar(op, given, result))


def _scale_after(op: Op, given: State, result: State) -> str:
    """Return the scale of a result; empty if its dtype tells it, or nothing does."""
    before = scale_of(given)
    if isinstance(op, Normalize):
        return NORMALIZED
    if op.name in KEEPING and result.kind == "array":
        floats = given.dtype.startswith("float") == result.dtype.startswith("float")
        return before if floats else ""
    if result.kind != "image" or result.dtype != FLOAT:
        return ""
    if before == OTHER and op.by_user:
        return UNKNOWN  # it may have brought them to 0 to 1
    clipped = before == OTHER and isinstance(op, Clip) and op.low >= 0 and op.high <= 1
    if clipped or isinstance(op, Window):
        return ""
    kept = given.dtype == FLOAT and given.scale in (NORMALIZED, OTHER, UNKNOWN)
    return given.scale if kept else ""


def _span(state: State) -> str:
    return "from {:g} to {:g} ".format(*state.span) if state.span else "that leave it "


def _check_fill(op: Fills | ChannelDrop, given: State) -> None:
    """Refuse a fill outside of 0 to 1, for an image that is known to count from 0 to 1."""
    fill = np.array(op.fill, ndmin=1)
    if fill.min() < 0:
        raise StateError(
            f"fill={op.fill} is below 0, but the image has floats from 0 to 1: give a number from 0"
            " to 1, or call the op before window or to_float, where the image has its own numbers",
            op=op.name,
            state=str(given),
        )
    if fill.max() > 1:
        raise StateError(
            f"fill={op.fill} is a level from 0 to 255, but the image has floats from 0 to 1: divide"
            " it by 255. Images of both can follow one decision with a fill each, by calls with one"
            " stream name",
            op=op.name,
            state=str(given),
        )


def _check_range(op: Clip | Window, given: State) -> None:
    """Refuse bounds that all floats from 0 to 1 are on one side of: the image would be constant."""
    if isinstance(op, Clip):
        low, high, told = op.low, op.high, f"low={op.low:g} and high={op.high:g}"
    else:
        low, high = op.center - op.width / 2, op.center + op.width / 2
        told = f"center={op.center:g} and width={op.width:g}"
    if low >= 1 or high <= 0:
        raise StateError(
            f"{op.name} with {told} makes all pixels equal: the image has floats from 0 to 1. Give "
            f"bounds of floats from 0 to 1, or call {op.name} before window or to_float, where the "
            "image has its own numbers",
            op=op.name,
            state=str(given),
        )


def check_normalize(op: Normalize, given: State) -> None:
    """Refuse a mean and a deviation on the scale of other numbers than those of the image.

    Raises:
        StateError: they are of levels, and the image counts from 0 to 1, or the reverse.
    """
    mean, std = (np.array(numbers, ndmin=1) for numbers in (op.mean, op.std))
    if given.kind != "image" or given.scale == UNKNOWN:
        return
    if scale_of(given) != OTHER and (np.abs(mean).max() > 1 or std.max() > 1):
        raise StateError(
            f"mean={op.mean} and std={op.std} are on the scale of levels, but they count"
            " in floats from 0 to 1, as torchvision's: divide both by 255 (of 16 bits, by 65535)",
            op=op.name,
            state=str(given),
        )
    whole = given.dtype == SIGNED
    far = whole or max(map(abs, given.span), default=0.0) >= FAR
    if far and mean.min() > 0 and mean.max() < 1 and std.max() <= 1:
        raise StateError(
            f"mean={op.mean} and std={op.std} are of floats from 0 to 1, but the image has "
            + (f"numbers of {SIGNED}" if whole else f"floats {_span(given)}in the dataset")
            + ": give the mean and std of its own numbers",
            op=op.name,
            state=str(given),
        )


def _is_planar(op: Op, given: State, result: State) -> bool:
    """Return whether a result is an image with the channels first."""
    if result.kind != "array" or len(result.shape) != 3:
        return False
    if op.name == "normalize":
        return result.shape != given.shape
    if op.name == "layout":
        return given.kind == "image" or (given.scale != "" and not given.planar)
    return given.planar and op.name == "cast"


def _is_signed(state: State) -> bool:
    """Return whether the numbers come from an image of int16, which may have been cast."""
    return scale_of(state) == OTHER and np.dtype(state.dtype).kind in "iu"


class JoinForm(NamedTuple):
    """Return the scale that both values of a join become.

    Attributes:
        kind: image, or array if one of them is an array.
        scale: what the numbers mean.
        planar: whether the channels come first.
        dtype: of floats; empty if no dtype changes.
    """

    kind: str
    scale: str
    planar: bool
    dtype: str


def common_form(left: State, right: State) -> JoinForm | None:
    """Return what two images become where branches join; None if they join as they are.

    Levels that meet floats from 0 to 1 are divided by the greatest, 255 or 65535. Any image that
    meets a normalized one, or stored floats of another range, keeps its numbers: the pipeline
    treats it as such already. Numbers of int16 are never floats from 0 to 1.

    Raises:
        BuildError: they are several images in one value, levels of 8 and of 16 bits, or numbers of
            int16 and levels or floats from 0 to 1.
    """
    scales = scale_of(left), scale_of(right)
    alike = scales[0] == scales[1] and left.planar == right.planar and left.kind == right.kind
    if "" in scales or alike:
        return None
    if set(scales) == {LEVELS, LEVELS16}:
        raise BuildError(
            "one has levels from 0 to 255, the other from 0 to 65535: call to_float in both "
            "branches"
        )
    for one, other in ((left, right), (right, left)):
        if _is_signed(one) and other.scale != UNKNOWN and scale_of(other) in TOLD:
            raise BuildError(
                f"one has numbers of {SIGNED}, the other {TOLD[scale_of(other)]}: call {WINDOW} in "
                "both branches"
            )
    if len(left.shape) != 3 or len(right.shape) != 3:
        if scales[0] == scales[1]:
            return None
        raise BuildError(
            f"one has {scales[0]}, the other is {scales[1]}, and they hold several images: convert "
            "them in the branches, before stack"
        )
    scale = next(scale for scale in (NORMALIZED, OTHER, UNIT, LEVELS16, LEVELS) if scale in scales)
    kind = "image" if left.kind == right.kind == "image" else "array"
    dtype = ""
    if scale not in (LEVELS, LEVELS16):
        dtype = (left if scales[0] == scale else right).dtype
    return JoinForm(kind, scale, left.planar or right.planar, dtype)


def conversions(state: State, form: JoinForm) -> Iterator[tuple[Op, State]]:
    """Yield the ops that give a value a form, each with the state of its result.

    A float32 for levels by value is not an op: joins copy those. `to_float` reads from the dtype
    whether levels have 16 bits, so levels that were cast to uint16 are cast on.

    Raises:
        BuildError: levels of 16 bits were cast to another dtype.
    """
    if form.scale == UNIT and scale_of(state) == LEVELS and state.dtype == "uint16":
        state = replace(state, dtype="int32")
        yield Cast("int32"), state
    if form.scale == UNIT and scale_of(state) == LEVELS16 and state.dtype != "uint16":
        raise BuildError(
            f"one has levels from 0 to 65535 that were cast to {state.dtype}, the other has floats "
            "from 0 to 1: call to_float before cast"
        )
    if scale_of(state) in (LEVELS, LEVELS16) and form.scale == UNIT:
        state = replace(state, dtype="float32", scale="" if state.kind == "image" else UNIT)
        yield ToFloat(), state
    if form.planar and not state.planar:
        shape = (state.shape[2], *state.shape[:2])
        bound = (state.bound[2], *state.bound[:2])
        scale = scale_of(state)
        state = replace(state, kind="array", shape=shape, bound=bound, scale=scale, planar=True)
        yield Layout("CHW"), state
    if form.dtype == "float16" and state.dtype != "float16":
        state = replace(state, kind="array", dtype="float16", scale=form.scale)
        yield Cast("float16"), state
