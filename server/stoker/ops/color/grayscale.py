"""Make all three channels a pixel's gray, with probability p, as torchvision's RandomGrayscale.

Gray is Pillow's luma, of uint16 too (`kernels.color`; for floats `kernels.color_floats`). The image
keeps three channels. An image of one channel is gray already.
"""

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import ByChance, begin, plain_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import GRAY_OR_RGB, LEVELS_FLOATS
from stoker.ops.kernels.color import K1, K2, K3, luma, plain_luma
from stoker.ops.kernels.color_floats import gray_of, plain_gray
from stoker.ops.kernels.float_levels import plain_unit, unit


@kernel
def fill_pixel(image: Any, k: Any, gray: Any) -> None:
    """Write a value three times, from index `k` on."""
    image[k] = gray
    image[k + K1] = gray
    image[k + K2] = gray


@kernel
def write_gray(image: Any) -> None:
    """Set all three channels of a pixel to its gray."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        gray = luma(image[k], image[k + K1], image[k + K2])
        fill_pixel(image, k, gray)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"] and src.shape[2] == 3:
        write_gray(image)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = plain_luma(src.astype(np.int64)) if record["apply"] else src


@kernel
def write_gray_floats(image: Any) -> None:
    """Set all three channels of a pixel of floats to its gray, clipped."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        gray = unit(gray_of(image[k], image[k + K1], image[k + K2]))
        fill_pixel(image, k, gray)


@kernel
def write_gray_floats_into(source: Any, image: Any) -> None:
    """Write a pixel's gray, clipped, into all three channels in other memory."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        gray = unit(gray_of(source[k], source[k + K1], source[k + K2]))
        fill_pixel(image, k, gray)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    applied = record["apply"] and src.shape[2] == 3
    if applied and src.ctypes.data != dst.ctypes.data:
        write_gray_floats_into(src.reshape(src.size), dst.reshape(dst.size))
    else:
        image = begin(src, dst)
        if applied:
            write_gray_floats(image)


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    return image if image.shape[2] == 1 else plain_unit(plain_gray(image))


@register
class Grayscale(ByChance):
    """Make an image gray, with probability p; it keeps its channels."""

    p: Probability = 0.1

    image_dtypes = LEVELS_FLOATS
    image_channels = GRAY_OR_RGB
    of_levels = True
    clips_floats = True
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain_floats, in_place=True)}


grayscale = function(Grayscale)
