"""Cut a window at a given place out of image and mask; what is outside of the image is filled.

No randomness. As torchvision's `crop(top, left, height, width)`.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.cropped import Cropped
from stoker.ops.bases.fills import Fill, MaskFill
from stoker.ops.contract.checks import MAX_SIDE
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.functions import function
from stoker.ops.contract.parameters import Whole
from stoker.ops.contract.reading import box_inside
from stoker.ops.contract.registry import register
from stoker.ops.kernels.cut import cut, plain_cut
from stoker.ops.kernels.points import scaled

PLACE: Final = Whole(-MAX_SIDE, MAX_SIDE, per_row=True)


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    cut(src, dst, int(params["top"]), int(params["left"]), params["fill"])


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    out = dst.reshape((dst.shape[0], dst.shape[1], 1))
    cut(whole, out, int(params["top"]), int(params["left"]), params["mask_fill"])


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_cut(src, dst, int(params["top"]), int(params["left"]), np.asarray(params["fill"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_cut(src, dst, int(params["top"]), int(params["left"]), np.asarray(params["mask_fill"]))


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    return scaled(1.0, 1.0, -int(params["left"]), -int(params["top"]))


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
    kernels = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    reads = staticmethod(_reads)
    forward = staticmethod(_forward)


crop = function(Crop)
