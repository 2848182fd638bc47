"""What the numbers of an image mean: levels, floats from 0 to 1, or normalized floats.

An image of uint8 has levels, one of uint16 has levels of 16 bits, one of float32 has floats from 0
to 1, unless `State.scale` says that it was normalized. `layout`, `stack` and float16 make arrays of
images: their states keep the scale, so that branches join them by their meaning. A state without a
scale is joined by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from stoker.ops.contract.op import Op
from stoker.ops.contract.states import LEVELS, LEVELS16, NORMALIZED, UNIT, State, StateError
from stoker.ops.values.cast import Cast
from stoker.ops.values.layout import Layout
from stoker.ops.values.to_float import ToFloat
from stoker.protocol.errors import BuildError

CLIPPING = frozenset({"from_float", "gaussian_noise", "jpeg_compression", "normalize", "sharpness"})
"""Ops outside of the color room that expect levels, or floats from 0 to 1."""
COLOR_ROOM = "stoker.ops.color."
KEEPING = frozenset({"cast", "layout", "stack"})


def scale_of(state: State) -> str:
    """Return what the numbers of a state mean; empty if that is not known."""
    if state.scale or state.kind != "image":
        return state.scale
    return {"uint8": LEVELS, "uint16": LEVELS16, "float32": UNIT}.get(state.dtype, "")


def scaled(op: Op, given: State, result: State) -> State:
    """Return the state of a result with the scale that an op gives it.

    Raises:
        StateError: the image was normalized, and the op expects levels or floats from 0 to 1.
    """
    before = scale_of(given)
    if before == NORMALIZED and (op.name in CLIPPING or type(op).__module__.startswith(COLOR_ROOM)):
        raise StateError(
            f"{op.name} expects levels, or floats from 0 to 1, but the image was normalized: call "
            f"{op.name} before normalize",
            op=op.name,
            state=str(given),
        )
    scale = ""
    if op.name == "normalize":
        scale = NORMALIZED
    elif op.name in KEEPING and result.kind == "array":
        floats = given.dtype.startswith("float") == result.dtype.startswith("float")
        scale = before if floats else ""
    elif result.kind == "image" and result.dtype == given.dtype == "float32":
        scale = before if before == NORMALIZED else ""
    return replace(result, scale=scale, planar=_is_planar(op, given, result))


def _is_planar(op: Op, given: State, result: State) -> bool:
    """Whether a result is an image with the channels first."""
    if result.kind != "array" or len(result.shape) != 3:
        return False
    if op.name == "normalize":
        return result.shape != given.shape
    if op.name == "layout":
        return given.kind == "image" or (given.scale != "" and not given.planar)
    return given.planar and op.name == "cast"


class JoinForm(NamedTuple):
    """What both values of a join become.

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
    meets a normalized one keeps its numbers: the pipeline treats it as normalized already.

    Raises:
        BuildError: they are several images in one value, or levels of 8 and of 16 bits.
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
    if len(left.shape) != 3 or len(right.shape) != 3:
        if scales[0] == scales[1]:
            return None
        raise BuildError(
            f"one has {scales[0]}, the other is {scales[1]}, and they hold several images: convert "
            "them in the branches, before stack"
        )
    scale = next(scale for scale in (NORMALIZED, UNIT, LEVELS16, LEVELS) if scale in scales)
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
