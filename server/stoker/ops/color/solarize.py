"""Invert levels at or above a threshold, with probability p, as torchvision's RandomSolarize.

For uint16 the threshold is 257 * threshold, the same part of the range, and such levels become
65535 - x. For floats it is threshold / 255, rounded to float32, the same value that `to_float`
gives. Such values become 1 - x, one float32 subtraction; nothing is clipped.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import PixelOp, begin, plain_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Whole
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.kernels.color_floats import PART
from stoker.ops.kernels.float_levels import ONE

HIGH: Final = np.uint16(65535)
"""All bits of a level; uint8 keeps the lower half."""
NONE: Final = 256
THRESHOLD: Final = "lowest level that is inverted, in parts of 255 of white; 256 inverts none"
"""A threshold above every level: nothing is inverted."""
WIDE_LEVEL: Final = np.uint32(257)
"""Levels of uint16 for each level of uint8."""


@kernel
def invert_from(image: Any, threshold: Any) -> None:
    """Invert the levels of a flat image that are at least the threshold, in place."""
    for i in range(np.uint64(image.size)):
        x = image[i]
        image[i] = x ^ HIGH if x >= threshold else x


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"] and params["threshold"] < NONE:
        invert_from(image, np.uint8(params["threshold"]))


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = np.where(record["apply"] & (src >= params["threshold"]), 255 - src, src)


@kernel
def _run_wide(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"] and params["threshold"] < NONE:
        invert_from(image, np.uint16(WIDE_LEVEL * params["threshold"]))


def _plain_wide(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    bright = record["apply"] & (src >= WIDE_LEVEL * np.int64(params["threshold"]))
    dst[...] = np.where(bright, ~src, src)


@kernel
def invert_floats_from(image: Any, threshold: Any) -> None:
    """Invert the values of a flat image that are at least the threshold, in place."""
    for i in range(np.uint64(image.size)):
        x = image[i]
        image[i] = ONE - x if x >= threshold else x


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"] and params["threshold"] < NONE:
        invert_floats_from(image, np.float32(params["threshold"] * PART))


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    if params["threshold"] == NONE:
        return image
    return np.where(image >= np.float32(params["threshold"] * PART), ONE - image, image)


@register
class Solarize(PixelOp):
    """Invert levels at or above a threshold."""

    threshold: Annotated[int, Whole(0, NONE, "u2"), THRESHOLD] = 128
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    of_levels = True
    clips_floats = True
    examples = ({"p": 0.5}, {"threshold": 200, "p": 1})
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain_floats, in_place=True)}

    wide = {"image": Kernel(_run_wide, _plain_wide, in_place=True)}


solarize = function(Solarize)
