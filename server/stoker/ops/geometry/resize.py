"""Resize to a fixed size; image and mask alike, without randomness.

Images are filtered (antialiased, as in Pillow); masks take the nearest class, never a new one.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from stoker.jit import kernel
from stoker.ops.bases.resizing import (
    NEAREST,
    Interpolation,
    filter_of,
    plain_image,
    plain_mask,
    resize_mask,
    resize_scratch,
    run_floats,
)
from stoker.ops.bases.wide_resize import SIGNED_RESIZE, WIDE_RESIZE
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.functions import function
from stoker.ops.contract.op import Op
from stoker.ops.contract.parameter_limits import MAX_SIDE, is_integer, refuse
from stoker.ops.contract.parameters import OwnRule
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import ParameterError, State
from stoker.ops.kernels.nearest import nearest
from stoker.ops.kernels.points import fill_frame
from stoker.ops.kernels.resample import resample


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    box = (0, 0, src.shape[0], src.shape[1])
    if params["interpolation"] == NEAREST:
        nearest(src, box, dst, scratch)
    else:
        resample(src, box, dst, filter_of(params["interpolation"]), scratch)


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    resize_mask(src, dst, (0, 0, src.shape[0], src.shape[1]), scratch)


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_image(src, dst, (0, 0, *src.shape[:2]), int(params["interpolation"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_mask(src, dst, (0, 0, *src.shape[:2]))


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    return int(params["height"]), int(params["width"])


def _sides(op: str, size: object) -> tuple[int, int]:
    """Return (height, width), and refuse a single side, which could mean a square or a ratio."""
    if is_integer(size):
        raise ParameterError(
            f"{op}: expected size to be (height, width), got {size}; for a square give "
            f"({size}, {size}), and to scale the shorter side use "
            f"resize_short(size={size})",
            op=op,
        )
    sides = tuple(size) if isinstance(size, Sequence) else ()
    if len(sides) != 2 or not all(is_integer(s) and 1 <= s <= MAX_SIDE for s in sides):
        raise refuse(op, "size", f"(height, width), from 1 to {MAX_SIDE}", size)
    return int(sides[0]), int(sides[1])


SIZE: Final = OwnRule(_sides, "(height, width)", (("height", "i4"), ("width", "i4")))


@register
class Resize(Op):
    """Resize to a fixed size."""

    size: Annotated[tuple[int, int], SIZE, "(height, width) of the result, in pixels"]
    interpolation: Interpolation = "bilinear"

    image_dtypes = ANY_DTYPE
    examples = (
        {"size": (24, 33)},
        {"size": (7, 11), "interpolation": "bicubic"},
        {"size": (50, 20), "interpolation": "nearest"},
        {"size": (24, 90), "interpolation": "lanczos"},
        {"size": (90, 13), "interpolation": "area"},
    )
    picture = {"size": (160, 120)}
    varied = {"size": ((32, 24), (32, 48))}
    kernels = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    floats = {"image": Kernel(run_floats, _plain_image)}
    wide = WIDE_RESIZE
    signed = SIGNED_RESIZE
    out_size = staticmethod(_out_size)
    forward = staticmethod(fill_frame)
    affine = True
    rescale = staticmethod(keep_record)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the new size."""
        self.require_pixels(states)
        need = resize_scratch(states, self.size, self.interpolation)
        return tuple(state.resized(*self.size, self.size) for state in states), need


resize = function(Resize)
