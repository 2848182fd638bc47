"""Turn red, green and blue into hue (0 to 179), saturation and value: OpenCV's RGB2HSV of uint8.

No randomness. Arithmetic: `stoker.ops.kernels.hsv`, for floats `stoker.ops.kernels.hsv_floats`.
"""

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.color_space import ColorSpaceOp, plain_form, plain_of_floats
from stoker.ops.bases.pixelwise import begin
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.kernels.color import K1, K2, K3
from stoker.ops.kernels.hsv import WHOLE, division, hue_of, plain_to_hsv, rounded
from stoker.ops.kernels.hsv_floats import floats_to_hsv, plain_floats_to_hsv


@kernel
def to_hsv(image: Any) -> None:
    """Convert a flat image in place."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        red, green, blue = np.int32(image[k]), np.int32(image[k + K1]), np.int32(image[k + K2])
        hue, value, d = hue_of(red, green, blue)
        image[k] = np.uint8(hue)
        image[k + K1] = np.uint8(rounded(np.int32(d * division(WHOLE, value))))
        image[k + K2] = np.uint8(value)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    to_hsv(begin(src, dst))


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    floats_to_hsv(begin(src, dst))


@register
class RgbToHsv(ColorSpaceOp):
    """Turn red, green and blue into hue, saturation and value."""

    of_levels = True
    clips_floats = True
    varied = {}
    kernels = {"image": Kernel(_run, plain_form(plain_to_hsv), in_place=True)}
    floats = {"image": Kernel(_run_floats, plain_of_floats(plain_floats_to_hsv), in_place=True)}


rgb_to_hsv = function(RgbToHsv)
