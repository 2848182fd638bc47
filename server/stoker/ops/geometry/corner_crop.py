"""Cut a corner out of image and mask; if the image is too small, the rest is filled.

No randomness. `stoker.ops.five_crop` uses it.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.cropped import Cropped
from stoker.ops.bases.fills import Fill, MaskFill
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.functions import function
from stoker.ops.contract.parameters import Word
from stoker.ops.contract.reading import box_inside
from stoker.ops.contract.registry import register
from stoker.ops.kernels.cut import cut, plain_cut
from stoker.ops.kernels.points import scaled

CORNERS: Final = ("top_left", "top_right", "bottom_left", "bottom_right")


@kernel
def _place(params: Any, height: int, width: int) -> Any:
    """Return the first row and column of the window in an image of that size."""
    top = (height - int(params["height"])) * int(params["corner"] // 2)
    return top, (width - int(params["width"])) * int(params["corner"] % 2)


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left = _place(params, src.shape[0], src.shape[1])
    cut(src, dst, top, left, params["fill"])


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left = _place(params, src.shape[0], src.shape[1])
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    cut(whole, dst.reshape((dst.shape[0], dst.shape[1], 1)), top, left, params["mask_fill"])


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left = _place(params, src.shape[0], src.shape[1])
    plain_cut(src, dst, top, left, np.asarray(params["fill"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left = _place(params, src.shape[0], src.shape[1])
    plain_cut(src, dst, top, left, np.asarray(params["mask_fill"]))


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    top, left = _place(params, sizes[0], sizes[1])
    return scaled(1.0, 1.0, -left, -top)


@kernel
def _reads(params: Any, record: Any, height: int, width: int) -> Any:
    top, left = _place(params, height, width)
    size = int(params["height"]), int(params["width"])
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
    kernels = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    reads = staticmethod(_reads)
    forward = staticmethod(_forward)


corner_crop = function(CornerCrop)
