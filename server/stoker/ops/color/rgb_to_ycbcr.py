"""Turn red, green and blue into luma, blue and red difference, as in JPEG files. No randomness."""

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
from stoker.ops.kernels.color import K1, K2, K3, luma
from stoker.ops.kernels.ycbcr import chroma, plain_to_ycbcr
from stoker.ops.kernels.ycbcr_floats import floats_to_ycbcr, plain_floats_to_ycbcr


@kernel
def to_ycbcr(image: Any) -> None:
    """Convert a flat image in place."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        red, green, blue = np.int32(image[k]), np.int32(image[k + K1]), np.int32(image[k + K2])
        cb, cr = chroma(red, green, blue)
        image[k] = np.uint8(luma(red, green, blue))
        image[k + K1] = np.uint8(cb)
        image[k + K2] = np.uint8(cr)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    to_ycbcr(begin(src, dst))


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    floats_to_ycbcr(begin(src, dst))


@register
class RgbToYcbcr(ColorSpaceOp):
    """Turn red, green and blue into Y, Cb and Cr."""

    image_dtypes = LEVELS_FLOATS
    of_levels = True
    clips_floats = True
    varied = {}
    kernels = {"image": Kernel(_run, plain_form(plain_to_ycbcr), in_place=True)}
    floats = {"image": Kernel(_run_floats, plain_of_floats(plain_floats_to_ycbcr), in_place=True)}
    wide = through_floats(floats["image"])


rgb_to_ycbcr = function(RgbToYcbcr)
