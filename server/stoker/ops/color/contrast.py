"""Blend an image with its mean gray, with probability p: torchvision's adjust_contrast.

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
from stoker.ops.contract.rules import FLOAT, GRAY_OR_RGB
from stoker.ops.contract.states import State
from stoker.ops.kernels.color import blend_with, fixed, mean_level, plain_blend, plain_mean
from stoker.ops.kernels.color_floats import (
    MEAN_BYTES,
    blend_unit,
    mean_gray,
    plain_blend_unit,
    plain_mean_gray,
)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    height, width, channels = src.shape
    image = begin(src, dst)
    if record["apply"]:
        blend_with(image, fixed(record["factor"]), mean_level(image, height * width, channels))


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        image = src.astype(np.int64)
        dst[...] = plain_blend(image, int(fixed(record["factor"])), plain_mean(image))


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        blend_unit(image, record["factor"], mean_gray(image, src.shape[2], scratch))


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    return plain_blend_unit(image, float(record["factor"]), plain_mean_gray(image))


@register
class Contrast(FactorOp):
    """Blend an image with its mean gray."""

    image_channels = GRAY_OR_RGB
    examples = ({"p": 0.9}, {"factor_range": (0, 3), "p": 0.5})
    picture = {"factor_range": (1.8, 1.8)}
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain_floats, in_place=True)}
    wide = through_floats(floats["image"])

    def scratch(self, state: State) -> int:
        """Return the bytes of some gray values of floats."""
        return MEAN_BYTES if state.dtype == FLOAT else 0


contrast = function(Contrast)
