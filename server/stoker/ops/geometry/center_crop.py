"""Cut the center out of image and mask; pixels outside of the image are filled. No randomness.

The offset is half of the excess, rounded to nearest, halves to even, as in torchvision's
center_crop; if the image is too small, half of the missing pixels, rounded down, are filled before
it.
"""

from typing import Any

from stoker.jit import kernel
from stoker.ops.bases.cropped import Cropped
from stoker.ops.bases.cut_window import window_kernels, window_map
from stoker.ops.bases.fills import Fill, MaskFill
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.read_box import box_inside
from stoker.ops.contract.registry import register


@kernel
def offset(size_in: int, size_out: int) -> int:
    """Return the first source pixel of a centerd window."""
    if size_in < size_out:
        return -((size_out - size_in) // 2)
    spare = size_in - size_out
    return spare // 2 + (1 if spare % 4 == 3 else 0)


@kernel
def _place(params: Any, record: Any, before: Any, after: Any) -> Any:
    return offset(before[0], after[0]), offset(before[1], after[1])


@kernel
def _reads(params: Any, record: Any, height: int, width: int) -> Any:
    size = int(params["height"]), int(params["width"])
    return box_inside(offset(height, size[0]), offset(width, size[1]), size, height, width)


@register
class CenterCrop(Cropped):
    """Cut the center out."""

    fill: Fill = 0
    mask_fill: MaskFill = 0

    examples = ({"size": 24, "fill": (7, 8, 9, 10), "mask_fill": 200}, {"size": (9, 40)})
    picture = {"size": 120}
    varied = {"size": ((16, 16), (20, 16))}
    kernels = window_kernels(_place)
    reads = staticmethod(_reads)
    forward = window_map(_place)


center_crop = function(CenterCrop)
