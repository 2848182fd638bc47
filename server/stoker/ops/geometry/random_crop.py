"""Cut a window of fixed size at a random place, out of image and mask padded with fills.

Draw 0 places the top, draw 1 the left, each uniformly: if the padded image is at least as large
as the window, the window is inside of the padded image; if it is smaller, the padded image
is inside of the window. The record's `top` and `left` are in pixels of the image without padding.
"""

from typing import Annotated, Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.cropped import (
    WINDOW_KERNELS,
    Cropped,
    drawn_place,
    random_place,
)
from stoker.ops.bases.cut_window import window_map
from stoker.ops.bases.fills import Fill, MaskFill
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import SidePair, Sides
from stoker.ops.contract.read_box import box_inside
from stoker.ops.contract.registry import register


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["top"] = random_place(key, 0, height, int(params["height"]), int(params["padding_y"]))
    record["left"] = random_place(key, 1, width, int(params["width"]), int(params["padding_x"]))


@kernel
def _reads(params: Any, record: Any, height: int, width: int) -> Any:
    size = int(params["height"]), int(params["width"])
    return box_inside(int(record["top"]), int(record["left"]), size, height, width)


@register
class RandomCrop(Cropped):
    """Cut a window at a random place."""

    padding: Annotated[Sides, SidePair(0), "pixels of fill on every side, or (y, x)"] = 0
    fill: Fill = 0
    mask_fill: MaskFill = 0

    examples = (
        {"size": (20, 30), "padding": 4, "fill": 114, "mask_fill": 255},
        {"size": 33, "padding": (0, 9)},
    )
    picture = {"size": 120}
    varied = {"size": ((16, 24),), "padding": (0, 4)}
    random = True
    record = np.dtype([("top", "i4"), ("left", "i4")])
    kernels = WINDOW_KERNELS
    draw = staticmethod(_draw)
    reads = staticmethod(_reads)
    forward = window_map(drawn_place)


random_crop = function(RandomCrop)
