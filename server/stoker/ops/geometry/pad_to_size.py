"""Put image and mask into a frame of a fixed size, unscaled; the rest is filled. No randomness.

So values of different sizes can be in one batch. An image that may be larger than the frame is a
build error; it is never cropped.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import Fill, Fills, MaskFill
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.functions import function
from stoker.ops.contract.op import Op
from stoker.ops.contract.parameters import SidePair, Sides, Word, both_sides
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import ANY_DTYPE, refuse
from stoker.ops.contract.states import State
from stoker.ops.kernels.cut import cut, plain_cut
from stoker.ops.kernels.points import scaled

PLACES: Final = ("top_left", "center")


@kernel
def _before(size_in: int, size_out: int, params: Any) -> int:
    return (size_out - size_in) // 2 if params["place"] else 0


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top = -_before(src.shape[0], dst.shape[0], params)
    left = -_before(src.shape[1], dst.shape[1], params)
    cut(src, dst, top, left, params["fill"])


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top = -_before(src.shape[0], dst.shape[0], params)
    left = -_before(src.shape[1], dst.shape[1], params)
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    cut(whole, dst.reshape((dst.shape[0], dst.shape[1], 1)), top, left, params["mask_fill"])


def _plain(src: np.ndarray, dst: np.ndarray, params: Any, fill: np.ndarray) -> None:
    top, left = (-_before(a, b, params) for a, b in zip(src.shape[:2], dst.shape[:2], strict=True))
    plain_cut(src, dst, top, left, fill)


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _plain(src, dst, params, np.asarray(params["fill"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _plain(src, dst, params, np.asarray(params["mask_fill"]))


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    return int(params["height"]), int(params["width"])


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    height, width, tall, wide = sizes
    return scaled(1.0, 1.0, _before(width, wide, params), _before(height, tall, params))


@register
class PadToSize(Fills, Op):
    """Put the image into a frame of a fixed size."""

    size: Annotated[Sides, SidePair(1), "side of the frame, or (height, width), in pixels"]
    place: Annotated[str, Word(PLACES), "the image; an odd pixel is below or right"] = "top_left"
    fill: Fill = 0
    mask_fill: MaskFill = 0

    image_dtypes = ANY_DTYPE
    examples = (
        {"size": (1000, 300), "fill": 114, "mask_fill": 200},
        {"size": (999, 301), "place": "center"},
    )
    picture = {"size": (200, 300), "fill": 114}
    varied = {"size": (60,), "place": ("top_left", "center")}
    kernels = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    out_size = staticmethod(_out_size)
    forward = staticmethod(_forward)
    affine = True

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the frame's size.

        Raises:
            StateError: an image may be larger than the frame, besides `Op.declare`'s reasons.
        """
        self.require_pixels(states)
        height, width = size = both_sides(self.size)
        for state in states:
            if state.bound[0] > size[0] or state.bound[1] > size[1]:
                remedy = "Resize or crop before it, or make the frame larger"
                raise refuse(self.name, f"sides up to {size[0]}x{size[1]}", state, remedy)
        return tuple(state.resized(height, width, size) for state in states), 0


pad_to_size = function(PadToSize)
