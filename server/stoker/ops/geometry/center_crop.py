"""Cut the center out of image and mask; pixels outside of the image are filled. No randomness.

The offset is half of the excess, rounded to nearest, halves to even, as in torchvision's
center_crop; if the image is too small, half of the missing pixels, rounded down, are filled before
it.
"""

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.cropped import Cropped
from stoker.ops.bases.fills import Fill, MaskFill
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.functions import function
from stoker.ops.contract.reading import box_inside
from stoker.ops.contract.registry import register
from stoker.ops.kernels.cut import cut, plain_cut
from stoker.ops.kernels.points import scaled


@kernel
def offset(size_in: int, size_out: int) -> int:
    """Return the first source pixel of a centerd window."""
    if size_in < size_out:
        return -((size_out - size_in) // 2)
    spare = size_in - size_out
    return spare // 2 + (1 if spare % 4 == 3 else 0)


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left = offset(src.shape[0], dst.shape[0]), offset(src.shape[1], dst.shape[1])
    cut(src, dst, top, left, params["fill"])


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left = offset(src.shape[0], dst.shape[0]), offset(src.shape[1], dst.shape[1])
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    cut(whole, dst.reshape((dst.shape[0], dst.shape[1], 1)), top, left, params["mask_fill"])


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left = offset(src.shape[0], dst.shape[0]), offset(src.shape[1], dst.shape[1])
    plain_cut(src, dst, top, left, np.asarray(params["fill"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left = offset(src.shape[0], dst.shape[0]), offset(src.shape[1], dst.shape[1])
    plain_cut(src, dst, top, left, np.asarray(params["mask_fill"]))


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    top, left = offset(sizes[0], sizes[2]), offset(sizes[1], sizes[3])
    return scaled(1.0, 1.0, -left, -top)


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
    kernels = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    reads = staticmethod(_reads)
    forward = staticmethod(_forward)


center_crop = function(CenterCrop)
