"""Add a level to each channel, with probability p, as Albumentations' RGBShift.

Draws: 0 applied if uniform < p; 1, 2 and 3 the shifts of red, green and blue, uniform in their
ranges, in levels. Levels become clip(x + floor(shift + 0.5)); floats clip(x + shift / 255), where
shift / 255 is rounded to float32.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, LEVELS, PixelOp, begin, look_up, plain_floats
from stoker.ops.bases.wide_floats import through_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Range, Span
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS, RGB
from stoker.ops.contract.states import State
from stoker.ops.kernels.color_floats import PART
from stoker.ops.kernels.float_levels import plain_unit, unit
from stoker.rng.draws import bernoulli, uniform_range
from stoker.rng.maths import floor

SHIFT: Final = Span(-255.0, 255.0)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["shift"][0] = uniform_range(key, 1, params["red_low"], params["red_high"])
    record["shift"][1] = uniform_range(key, 2, params["green_low"], params["green_high"])
    record["shift"][2] = uniform_range(key, 3, params["blue_low"], params["blue_high"])


@kernel
def fill_shifted(shift: float, first: int, tables: Any) -> None:
    """Write the new level of each of the 256 levels, from index `first` on."""
    step = int(floor(shift + 0.5))
    for x in range(LEVELS):
        tables[first + x] = min(max(x + step, 0), 255)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        for channel in range(3):
            fill_shifted(record["shift"][channel], LEVELS * channel, scratch)
        look_up(image, scratch, 3)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        steps = np.floor(np.asarray(record["shift"]) + 0.5).astype(np.int64)
        dst[...] = np.clip(src + steps, 0, 255)


@kernel
def shift_floats(image: Any, red: Any, green: Any, blue: Any) -> None:
    """Add a number to each channel of a flat image of floats, and clip."""
    for i in range(np.uint64(image.size // 3)):
        k = np.uint64(3) * i
        image[k] = unit(image[k] + red)
        image[k + np.uint64(1)] = unit(image[k + np.uint64(1)] + green)
        image[k + np.uint64(2)] = unit(image[k + np.uint64(2)] + blue)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image, shift = begin(src, dst), record["shift"]
    if record["apply"]:
        red, green = np.float32(shift[0] * PART), np.float32(shift[1] * PART)
        shift_floats(image, red, green, np.float32(shift[2] * PART))


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    return plain_unit(image + (np.asarray(record["shift"]) * PART).astype(np.float32))


@register
class RgbShift(PixelOp):
    """Add a level to each channel of an RGB image, with probability p, and clip."""

    red_range: Annotated[Range, SHIFT, "levels that are added to red"] = (-20.0, 20.0)
    green_range: Annotated[Range, SHIFT, "the same for green"] = (-20.0, 20.0)
    blue_range: Annotated[Range, SHIFT, "the same for blue"] = (-20.0, 20.0)
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    image_channels = RGB
    of_levels = True
    clips_floats = True
    picture = {"red_range": (60, 60), "blue_range": (-60, -60)}
    record = np.dtype([("shift", "f8", (3,)), APPLY])
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain_floats, in_place=True)}
    wide = through_floats(floats["image"])
    draw = staticmethod(_draw)

    def scratch(self, state: State) -> int:
        """Return the bytes of a table for each channel."""
        return 3 * LEVELS


rgb_shift = function(RgbShift)
