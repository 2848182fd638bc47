"""Cut a window at a given place out of image and mask; what is outside of the image is filled.

No randomness. As torchvision's `crop(top, left, height, width)`.
"""

from typing import Annotated, Any, Final

from stoker.jit import kernel
from stoker.ops.bases.cropped import Cropped
from stoker.ops.bases.cut_window import window_kernels, window_map
from stoker.ops.bases.fills import Fill, MaskFill
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.parameters import Whole
from stoker.ops.contract.read_box import box_inside
from stoker.ops.contract.registry import register

PLACE: Final = Whole(-MAX_SIDE, MAX_SIDE, per_row=True)


@kernel
def _place(params: Any, record: Any, before: Any, after: Any) -> Any:
    return int(params["top"]), int(params["left"])


@kernel
def _reads(params: Any, record: Any, height: int, width: int) -> Any:
    size = int(params["height"]), int(params["width"])
    return box_inside(int(params["top"]), int(params["left"]), size, height, width)


@register
class Crop(Cropped):
    """Cut a window at a given place out."""

    top: Annotated[int, PLACE, "first row of the window; negative above the image"]
    left: Annotated[int, PLACE, "first column of the window; negative left of the image"]
    fill: Fill = 0
    mask_fill: MaskFill = 0

    examples = (
        {"size": (24, 30), "top": 3, "left": 9},
        {"size": (40, 70), "top": -4, "left": -9, "fill": (7, 8, 9, 10), "mask_fill": 200},
    )
    picture = {"size": (120, 140), "top": 10, "left": 50}
    varied = {"size": ((20, 24),), "top": (-3, 2), "left": (0, 5)}
    kernels = window_kernels(_place)
    reads = staticmethod(_reads)
    forward = window_map(_place)


crop = function(Crop)
