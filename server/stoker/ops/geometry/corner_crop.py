"""Cut a corner out of image and mask; if the image is too small, the rest is filled.

No randomness. `stoker.ops.five_crop` uses it.
"""

from typing import Annotated, Any, Final

from stoker.jit import kernel
from stoker.ops.bases.cropped import Cropped
from stoker.ops.bases.cut_window import window_kernels, window_map
from stoker.ops.bases.fills import Fill, MaskFill
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Word
from stoker.ops.contract.read_box import box_inside
from stoker.ops.contract.registry import register

CORNERS: Final = ("top_left", "top_right", "bottom_left", "bottom_right")


@kernel
def _place(params: Any, record: Any, before: Any, after: Any) -> Any:
    top = (before[0] - after[0]) * int(params["corner"] // 2)
    return top, (before[1] - after[1]) * int(params["corner"] % 2)


@kernel
def _reads(params: Any, record: Any, height: int, width: int) -> Any:
    size = int(params["height"]), int(params["width"])
    top, left = _place(params, 0, (height, width), size)
    return box_inside(top, left, size, height, width)


@register
class CornerCrop(Cropped):
    """Cut a corner out."""

    corner: Annotated[str, Word(CORNERS), "the corner that is kept"] = "top_left"
    fill: Fill = 0
    mask_fill: MaskFill = 0

    examples = (
        {"size": 24, "corner": "bottom_right", "fill": (7, 8, 9, 10), "mask_fill": 200},
        {"size": (9, 40), "corner": "top_right"},
    )
    picture = {"size": 120, "corner": "bottom_right"}
    varied = {"size": ((16, 16), (16, 20)), "corner": CORNERS}
    kernels = window_kernels(_place)
    reads = staticmethod(_reads)
    forward = window_map(_place)


corner_crop = function(CornerCrop)
