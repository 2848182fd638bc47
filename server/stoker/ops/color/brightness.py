"""Multiply levels by a factor, with probability p: torchvision's adjust_brightness.

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
from stoker.ops.kernels.color import LOW, blend_with, fixed, plain_blend
from stoker.ops.kernels.color_floats import blend_unit, plain_blend_unit
from stoker.ops.kernels.float_levels import ZERO


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        blend_with(image, fixed(record["factor"]), LOW)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        dst[...] = plain_blend(src.astype(np.int64), int(fixed(record["factor"])), 0)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        blend_unit(image, record["factor"], ZERO)


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    return plain_blend_unit(image, float(record["factor"]), ZERO)


@register
class Brightness(FactorOp):
    """Multiply levels by a factor."""

    examples = ({"p": 0.9}, {"factor_range": (0, 3), "p": 0.5})
    picture = {"factor_range": (1.5, 1.5)}
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain_floats, in_place=True)}
    wide = through_floats(floats["image"])


brightness = function(Brightness)
