"""Turn luma, blue and red difference of JPEG files into red, green and blue. No randomness."""

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.color_space import ColorSpaceOp, plain_form, plain_of_floats
from stoker.ops.bases.pixelwise import begin
from stoker.ops.bases.wide_floats import through_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.kernels.color import K1, K2, K3
from stoker.ops.kernels.ycbcr import colors, plain_to_rgb
from stoker.ops.kernels.ycbcr_floats import plain_ycbcr_to_floats, ycbcr_to_floats


@kernel
def to_rgb(image: Any) -> None:
    """Convert a flat image in place."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        gray, cb, cr = np.int32(image[k]), np.int32(image[k + K1]), np.int32(image[k + K2])
        image[k], image[k + K1], image[k + K2] = colors(gray, cb, cr)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    to_rgb(begin(src, dst))


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    ycbcr_to_floats(begin(src, dst))


@register
class YcbcrToRgb(ColorSpaceOp):
    """Turn Y, Cb and Cr into red, green and blue."""

    image_dtypes = LEVELS_FLOATS
    of_levels = True
    clips_floats = True
    varied = {}
    kernels = {"image": Kernel(_run, plain_form(plain_to_rgb), in_place=True)}
    floats = {"image": Kernel(_run_floats, plain_of_floats(plain_ycbcr_to_floats), in_place=True)}
    wide = through_floats(floats["image"])


ycbcr_to_rgb = function(YcbcrToRgb)
