"""Turn hue (0 to 179), saturation and value into red, green and blue; the inverse of rgb_to_hsv.

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
from stoker.ops.kernels.hsv import parts_of, plain_to_rgb
from stoker.ops.kernels.hsv_floats import hsv_to_floats, plain_hsv_to_floats


@kernel
def from_hsv(image: Any) -> None:
    """Convert a flat image in place."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        value = np.int64(image[k + K2])
        sector, p, q, t = parts_of(np.int64(image[k]), np.int64(image[k + K1]), value)
        if sector == 0:
            red, green, blue = value, t, p
        elif sector == 1:
            red, green, blue = q, value, p
        elif sector == 2:
            red, green, blue = p, value, t
        elif sector == 3:
            red, green, blue = p, q, value
        elif sector == 4:
            red, green, blue = t, p, value
        else:
            red, green, blue = value, p, q
        image[k], image[k + K1], image[k + K2] = red, green, blue


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    from_hsv(begin(src, dst))


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    hsv_to_floats(begin(src, dst))


@register
class HsvToRgb(ColorSpaceOp):
    """Turn hue, saturation and value into red, green and blue."""

    of_levels = True
    clips_floats = True
    varied = {}
    kernels = {"image": Kernel(_run, plain_form(plain_to_rgb), in_place=True)}
    floats = {"image": Kernel(_run_floats, plain_of_floats(plain_hsv_to_floats), in_place=True)}


hsv_to_rgb = function(HsvToRgb)
