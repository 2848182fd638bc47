"""Add pixels around image and mask: given numbers of them, and up to a multiple. No randomness.

New pixels are a fill, the nearest edge, or the mirrored image. Pixels added for a multiple are
below and on the right, so that positions in the image do not change.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, cast

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import Fill, Fills, MaskFill
from stoker.ops.contract.kernel_forms import Kernel, RunKernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import MAX_SIDE, is_integer, refuse
from stoker.ops.contract.parameters import OwnRule, SidePair, Sides, Word, both_sides
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State, StateError
from stoker.ops.kernels.cut import cut, plain_cut
from stoker.ops.kernels.extend import extend, plain_extend
from stoker.ops.kernels.points import scaled

MODES: Final = ("constant", "edge", "reflect")
CONSTANT: Final = 0
REFLECT: Final = 2


@kernel
def _pad(src: Any, dst: Any, params: Any, fill: Any) -> None:
    top, left = -int(params["top"]), -int(params["left"])
    if params["mode"] == CONSTANT:
        cut(src, dst, top, left, fill)
    else:
        extend(src, dst, top, left, 1 if params["mode"] == REFLECT else 0)


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _pad(src, dst, params, params["fill"])


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    _pad(whole, dst.reshape((dst.shape[0], dst.shape[1], 1)), params, params["mask_fill"])


def _plain(fill: str) -> RunKernel:
    def plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        top, left = -int(params["top"]), -int(params["left"])
        if params["mode"] == CONSTANT:
            plain_cut(src, dst, top, left, np.asarray(params[fill]))
        else:
            plain_extend(src, dst, top, left, int(params["mode"] == REFLECT))

    return plain


@kernel
def padded_side(side: int, before: int, after: int, multiple: int) -> int:
    """Return a side with its padding, rounded up to a multiple."""
    return (side + before + after + multiple - 1) // multiple * multiple


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    tall = padded_side(height, int(params["top"]), int(params["bottom"]), int(params["multiple_y"]))
    wide = padded_side(width, int(params["left"]), int(params["right"]), int(params["multiple_x"]))
    return tall, wide


def _padding(op: str, value: object) -> tuple[int, int, int, int]:
    """Return (top, bottom, left, right) for one number, for (y, x), or for all four."""
    sides: tuple[Any, ...] = tuple(value) if isinstance(value, Sequence) else (value,)
    if all(is_integer(s) and 0 <= s <= MAX_SIDE for s in sides):
        if len(sides) == 1:
            sides = sides * 2
        if len(sides) == 2:
            sides = (sides[0], sides[0], sides[1], sides[1])
        if len(sides) == 4:
            return int(sides[0]), int(sides[1]), int(sides[2]), int(sides[3])
    expected = (
        "an integer, (above and below, left and right), or (top, bottom, left, right), from 0 to "
        f"{MAX_SIDE}"
    )
    raise refuse(op, "padding", expected, value)


PADDING: Final = OwnRule(
    _padding,
    "an integer, (above and below, left and right), or (top, bottom, left, right)",
    tuple((side, "i4") for side in ("top", "bottom", "left", "right")),
)


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    return scaled(1.0, 1.0, int(params["left"]), int(params["top"]))


@register
class Pad(Fills, Op):
    """Add pixels around the image."""

    padding: Annotated[int | tuple[int, ...], PADDING, "pixels on each side"] = 0
    multiple: Annotated[Sides, SidePair(1), "sides are extended to multiples of this"] = 1
    mode: Annotated[str, Word(MODES), "the content of new pixels"] = "constant"
    fill: Fill = 0
    mask_fill: MaskFill = 0

    image_dtypes = ANY_DTYPE
    examples = (
        {"padding": 30, "mode": "reflect"},
        {"padding": (2, 5), "mode": "edge", "multiple": (16, 24)},
        {"padding": (3, 0, 9, 50), "fill": (7, 8, 9, 10), "mask_fill": 200},
    )
    picture = {"padding": 24, "mode": "reflect"}
    varied = {"padding": (3,), "mode": ("edge", "reflect")}
    kernels = {
        "image": Kernel(_run_image, _plain("fill")),
        "mask": Kernel(_run_mask, _plain("mask_fill")),
    }
    out_size = staticmethod(_out_size)
    forward = staticmethod(_forward)
    affine = True

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states with extended sides."""
        if self.mode == "constant":
            self.require_pixels(states)
        else:  # a fill does not matter
            Op.require_pixels(self, states)
        return tuple(self._grown(state) for state in states), 0

    def vector_fault(self, kind: str) -> str | None:
        """Return why the op cannot treat flow or normals: a reflection turns their components."""
        if self.mode != "reflect":
            return super().vector_fault(kind)
        return (
            f"mode='reflect' would repeat its vectors, but not mirror them. Pad the {kind} and "
            "what belongs to it with mode='constant' or 'edge'"
        )

    def _grown(self, state: State) -> State:
        """Return the state with its padding."""
        top, bottom, left, right = cast(tuple[int, ...], self.padding)
        multiple_y, multiple_x = both_sides(self.multiple)
        tall = padded_side(state.bound[0], top, bottom, multiple_y)
        wide = padded_side(state.bound[1], left, right, multiple_x)
        if max(tall, wide) > MAX_SIDE:
            raise StateError(
                f"{self.name}: expected sides up to {MAX_SIDE}, {state} would become "
                f"{tall}x{wide}. Pad by less",
                op=self.name,
            )
        fixed_y, fixed_x = state.shape[0] is not None, state.shape[1] is not None
        return state.resized(tall if fixed_y else None, wide if fixed_x else None, (tall, wide))


pad = function(Pad)
