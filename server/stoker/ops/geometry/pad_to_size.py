"""Put image and mask into a frame of a fixed size, unscaled; the rest is filled. No randomness.

So values of different sizes can be in one batch. An image that may be larger than the frame is a
build error; it is never cropped.
"""

from typing import Annotated, Any, Final

from stoker.jit import kernel
from stoker.ops.bases.cut_window import window_kernels, window_map
from stoker.ops.bases.fills import Fill, Fills, MaskFill
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import SidePair, Sides, Word, both_sides
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import ANY_DTYPE, refuse
from stoker.ops.contract.states import State

PLACES: Final = ("top_left", "center")


@kernel
def _place(params: Any, record: Any, before: Any, after: Any) -> Any:
    if params["place"]:
        return -((after[0] - before[0]) // 2), -((after[1] - before[1]) // 2)
    return 0, 0


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    return int(params["height"]), int(params["width"])


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
    kernels = window_kernels(_place)
    out_size = staticmethod(_out_size)
    forward = window_map(_place)
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
