"""Invert every level with probability p: 255 - x, of uint16 65535 - x: torchvision's RandomInvert.

For floats 1 - x, one float32 subtraction; nothing is clipped.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import ByChance, begin, plain_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.kernels.float_levels import ONE, number, plain_number

HIGH: Final = np.uint16(65535)
"""All bits of a level; uint8 keeps the lower half."""


@kernel
def invert_levels(image: Any) -> None:
    """Invert a flat image in place."""
    for i in range(np.uint64(image.size)):
        image[i] = image[i] ^ HIGH


@kernel
def invert_into(source: Any, image: Any) -> None:
    """Write a flat image inverted to other memory."""
    for i in range(np.uint64(image.size)):
        image[i] = source[i] ^ HIGH


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if record["apply"] and src.ctypes.data != dst.ctypes.data:
        invert_into(src.reshape(src.size), dst.reshape(dst.size))
    else:
        image = begin(src, dst)
        if record["apply"]:
            invert_levels(image)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = ~src if record["apply"] else src


@kernel
def invert_floats(image: Any) -> None:
    """Invert a flat image of floats in place."""
    for i in range(np.uint64(image.size)):
        image[i] = number(ONE - image[i])


@kernel
def invert_floats_into(source: Any, image: Any) -> None:
    """Write a flat image of floats inverted to other memory."""
    for i in range(np.uint64(image.size)):
        image[i] = number(ONE - source[i])


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if record["apply"] and src.ctypes.data != dst.ctypes.data:
        invert_floats_into(src.reshape(src.size), dst.reshape(dst.size))
    else:
        image = begin(src, dst)
        if record["apply"]:
            invert_floats(image)


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    return plain_number(ONE - image)


@register
class Invert(ByChance):
    """Invert every level."""

    image_dtypes = LEVELS_FLOATS
    of_levels = True
    clips_floats = True
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain_floats, in_place=True)}


invert = function(Invert)
