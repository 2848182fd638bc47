"""Put image and mask at a random place of a larger, filled canvas: the expansion of SSD.

Draws: 0 applied if uniform < p; 1 the ratio of canvas to image, uniform in its range, sides rounded
down; 2 and 3 the position from the top and from the left, integers. The size differs from row to
row: add a resize or a crop after it. Like torchvision's RandomZoomOut.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.cut_window import window_kernels, window_map
from stoker.ops.bases.fills import Fill, Fills, MaskFill
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.parameters import Probability, Range, Span
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import carried
from stoker.ops.contract.rules import ANY_DTYPE, refuse
from stoker.ops.contract.states import State
from stoker.rng.draws import bernoulli, integers, uniform_range
from stoker.rng.maths import floor

MOST: Final = 16.0


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    ratio = uniform_range(key, 1, params["side_low"], params["side_high"])
    ratio = ratio if bernoulli(key, 0, params["p"]) else 1.0
    tall, wide = floor(height * ratio), floor(width * ratio)
    record["height"] = tall
    record["width"] = wide
    record["top"] = int(integers(key, 2, tall - height + 1))
    record["left"] = int(integers(key, 3, wide - width + 1))


@kernel
def _place(params: Any, record: Any, before: Any, after: Any) -> Any:
    return -int(record["top"]), -int(record["left"])


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> Any:
    return np.int64(record["height"]), np.int64(record["width"])


@kernel
def _canvas(side: Any, before: int, after: int, high: float) -> Any:
    """Scale a side of the canvas, rounded down like that of the first value."""
    return max(min(side * after // before, floor(after * high)), after)


@kernel
def _rescale(params: Any, record: Any, sizes: Any) -> bool:
    before_y, before_x, after_y, after_x = sizes
    height = _canvas(np.int64(record["height"]), before_y, after_y, params["side_high"])
    width = _canvas(np.int64(record["width"]), before_x, after_x, params["side_high"])
    top = carried(np.int64(record["top"]), before_y, after_y)
    left = carried(np.int64(record["left"]), before_x, after_x)
    record["height"], record["width"] = height, width
    record["top"], record["left"] = min(top, height - after_y), min(left, width - after_x)
    return True


@register
class ZoomOut(Fills, Op):
    """Put the image at a random place of a larger canvas."""

    side_range: Annotated[Range, Span(1.0, MOST), "canvas over image, both sides"] = (
        1.0,
        4.0,
    )
    fill: Fill = 0
    mask_fill: MaskFill = 0
    p: Probability = 0.5

    image_dtypes = ANY_DTYPE
    examples = (
        {"fill": 114, "mask_fill": 200, "p": 0.9},
        {"side_range": (1, 2), "fill": (1, 2, 3, 4), "p": 0.5},
    )
    picture = {"side_range": (1.6, 1.6), "fill": 114}
    varied = {"side_range": ((1.0, 1.5),)}
    random = True
    record = np.dtype([("top", "i4"), ("left", "i4"), ("height", "i4"), ("width", "i4")])
    kernels = window_kernels(_place)
    draw = staticmethod(_draw)
    out_size = staticmethod(_out_size)
    forward = window_map(_place)
    affine = True
    rescale = staticmethod(_rescale)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of any size up to the largest canvas.

        Raises:
            StateError: the largest canvas is too large, besides `Op.declare`'s reasons.
        """
        self.require_pixels(states)
        return tuple(self._grown(state) for state in states), 0

    def _grown(self, state: State) -> State:
        most = (
            floor(state.bound[0] * self.side_range[1]),
            floor(state.bound[1] * self.side_range[1]),
        )
        if max(most) > MAX_SIDE:
            expected = f"a canvas with sides up to {MAX_SIDE}, not {most[0]}x{most[1]}"
            raise refuse(self.name, expected, state, "Zoom out by less")
        return state.resized(None, None, most)


zoom_out = function(ZoomOut)
