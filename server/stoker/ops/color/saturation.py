"""Blend pixels with their gray, with probability p: torchvision's adjust_saturation.

Draws: `bases.factor`. The arithmetic is that of the same step of color_jitter: `kernels.color`, for
floats `stoker.ops.kernels.color_floats`.
"""

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.factor import FactorOp
from stoker.ops.bases.pixelwise import begin, plain_floats
from stoker.ops.bases.wide_floats import through_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import GRAY_OR_RGB
from stoker.ops.kernels.color import fixed, plain_blend, plain_luma, saturate
from stoker.ops.kernels.color_floats import plain_blend_unit, plain_gray, saturate_unit


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"] and src.shape[2] == 3:
        saturate(image, fixed(record["factor"]))


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        image = src.astype(np.int64)
        dst[...] = plain_blend(image, int(fixed(record["factor"])), plain_luma(image))


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"] and src.shape[2] == 3:
        saturate_unit(image, record["factor"])


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    if image.shape[2] == 1:
        return image
    return plain_blend_unit(image, float(record["factor"]), plain_gray(image))


@register
class Saturation(FactorOp):
    """Blend pixels with their gray."""

    image_channels = GRAY_OR_RGB
    examples = ({"p": 0.9}, {"factor_range": (0, 3), "p": 0.5})
    picture = {"factor_range": (0.3, 0.3)}
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain_floats, in_place=True)}
    wide = through_floats(floats["image"])


saturation = function(Saturation)
