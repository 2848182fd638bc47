"""Blend with a smoothed image by a factor, with probability p: Pillow's ImageEnhance.Sharpness.

Draws: `bases.factor`. 0 is the smoothed image, 1 changes nothing, above 1 sharpens. Smoothed:
the eight neighbors once and the pixel five times, over 13, rounded; the outermost pixels do not
change.

Floats use float32(1 / 13) and the factor as in `stoker.ops.kernels.color_floats`; results are
clipped, including the outermost pixels.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.factor import FactorOp
from stoker.ops.bases.pixelwise import begin, plain_floats
from stoker.ops.bases.wide_floats import through_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.kernels.color import ONE, fixed, level, plain_blend
from stoker.ops.kernels.float_levels import plain_unit, unit

FIVE: Final = np.int32(5)
SIX: Final = np.int32(6)
INVERSE: Final = np.int32(5042)
"""(s + 6) * 5042 >> 16 is (s + 6) // 13 for every s up to 13 * 255."""
BITS: Final = np.int32(16)
MIDDLE: Final = np.float32(4)
THIRTEENTH: Final = np.float32(1 / 13)
UNCHANGED: Final = np.float32(1)


@kernel
def three(image: Any, at: Any, step: Any) -> Any:
    """Return the sum of a value and its left and right neighbors in the same channel."""
    side = np.int32(np.int32(image[at - step]) + np.int32(image[at + step]))
    return np.int32(side + np.int32(image[at]))


@kernel
def sharpen_row(image: Any, result: Any, start: Any, count: Any, steps: Any, factor: Any) -> None:
    """Write `count` values of a row from index `start` on; `steps` = (to a pixel, to a row)."""
    step, stride = steps
    rest = np.int32(ONE - factor)
    for j in range(count):
        at = start + j
        x = np.int32(image[at])
        total = np.int32(three(image, at - stride, step) + three(image, at + stride, step))
        total = np.int32(total + np.int32(image[at - step]) + np.int32(image[at + step]))
        total = np.int32(np.int32(total + np.int32(FIVE * x)) + SIX)
        soft = np.int32(np.int32(total * INVERSE) >> BITS)
        result[at] = level(np.int32(np.int32(factor * x) + np.int32(rest * soft)))


@kernel
def sharpen(src: Any, result: Any, factor: Any) -> None:
    """Blend an image with its smoothed form; `result` is flat and has the levels of `src`."""
    height, width, channels = src.shape
    if width > 2 and factor != ONE:
        image, stride = src.reshape(src.size), width * channels
        steps = (np.uint64(channels), np.uint64(stride))
        for y in range(1, height - 1):
            start = np.uint64(y * stride + channels)
            count = np.uint64(stride - 2 * channels)
            sharpen_row(image, result, start, count, steps, factor)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    result = begin(src, dst)
    if record["apply"]:
        sharpen(src, result, fixed(record["factor"]))


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"] and min(src.shape[:2]) > 2:
        image = src.astype(np.int64)
        total = 4 * image[1:-1, 1:-1]
        height, width = total.shape[:2]
        for y in range(3):
            for x in range(3):
                total = total + image[y : y + height, x : x + width]
        image[1:-1, 1:-1] = (total + 6) // 13
        factor = int(fixed(record["factor"]))
        dst[...] = plain_blend(src.astype(np.int64), factor, image)


@kernel
def three_floats(image: Any, at: Any, step: Any) -> Any:
    """Return the sum of a value and its left and right neighbors in the same channel."""
    return image[at - step] + image[at + step] + image[at]


@kernel
def sharpen_floats(image: Any, result: Any, start: Any, count: Any, steps: Any, parts: Any) -> None:
    """Write `count` values of a row as `sharpen_row` does; parts = (factor, 1 - factor)."""
    step, stride = steps
    part, rest = parts
    for j in range(count):
        at = start + j
        x = image[at]
        total = three_floats(image, at - stride, step) + three_floats(image, at + stride, step)
        total = total + three_floats(image, at, step) + MIDDLE * x
        result[at] = unit(part * x + rest * (total * THIRTEENTH))


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    result = begin(src, dst)
    part, rest = np.float32(record["factor"]), np.float32(1.0 - record["factor"])
    if record["apply"] and part != UNCHANGED:
        for i in range(np.uint64(result.size)):
            result[i] = unit(result[i])
        height, width, channels = src.shape
        image, stride = src.reshape(src.size), width * channels
        steps = (np.uint64(channels), np.uint64(stride))
        if width > 2:
            for y in range(1, height - 1):
                start = np.uint64(y * stride + channels)
                count = np.uint64(stride - 2 * channels)
                sharpen_floats(image, result, start, count, steps, (part, rest))


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    part, rest = np.float32(record["factor"]), np.float32(1.0 - record["factor"])
    if part == UNCHANGED:
        return image
    result = plain_unit(image)
    if min(image.shape[:2]) > 2:
        rows = image[:, :-2] + image[:, 2:] + image[:, 1:-1]
        x = image[1:-1, 1:-1]
        total = rows[:-2] + rows[2:] + rows[1:-1] + MIDDLE * x
        result[1:-1, 1:-1] = plain_unit(part * x + rest * (total * THIRTEENTH))
    return result


@register
class Sharpness(FactorOp):
    """Smooth or sharpen."""

    image_dtypes = LEVELS_FLOATS
    of_levels = True
    clips_floats = True
    examples = ({"p": 0.9}, {"factor_range": (0, 5), "p": 0.5})
    picture = {"factor_range": (6, 6)}
    kernels = {"image": Kernel(_run, _plain)}
    floats = {"image": Kernel(_run_floats, _plain_floats)}
    wide = through_floats(floats["image"])


sharpness = function(Sharpness)
