"""Change contrast, then brightness, with probability p: Albumentations' RandomBrightnessContrast.

Draws: 0 applied if uniform < p; 1 the brightness b and 2 the contrast c, uniform in their ranges.
A value x becomes (1 + c) x + b white, clipped to 0 to white: 255, 65535 of uint16, 1 of floats.
With `brightness_by_max=False` the mean of all values takes the place of white. Everything is
float64; levels are rounded, halves up, and Albumentations drops their fraction.

Of floats, NaN becomes 0. A contrast of 0 with a brightness of 0 neither changes nor clips.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, LEVELS, PixelOp, begin, look_up_all, plain_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Flag, Probability, Range, Spread
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.float_levels import plain_unit, unit
from stoker.ops.kernels.lane_sums import EMPTY, add_lanes, plain_total, total
from stoker.rng.draws import bernoulli, uniform_range

MOST: Final = 16.0
LIMIT: Final = Spread(MOST)
Limit = float | Range
ZERO: Final = np.float64(0)
HALF: Final = np.float64(0.5)
ONE: Final = np.float64(1)
WHITE: Final = np.float64(255)
WIDE_WHITE: Final = np.float64(65535)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    low, high = params["brightness_limit_low"], params["brightness_limit_high"]
    record["brightness"] = uniform_range(key, 1, low, high)
    low, high = params["contrast_limit_low"], params["contrast_limit_high"]
    record["contrast"] = uniform_range(key, 2, low, high)


@kernel
def line_of(params: Any, record: Any, unit_step: Any, white: Any) -> Any:
    """Return (factor, offset) of the line that values are mapped by.

    Args:
        params: of the op.
        record: of the op.
        unit_step: what a brightness of 1 adds: white, or the mean of the image; float64.
        white: greatest value; float64.
    """
    factor, offset = ONE + record["contrast"], record["brightness"] * unit_step
    if params["ensure_safe_range"]:
        offset = offset if offset > ZERO else ZERO
        offset = offset if offset < white else white
        if factor > ZERO:
            most = (white - offset) / white
            factor = factor if factor < most else most
        else:
            least = -offset / white
            factor = factor if factor > least else least
    return factor, offset


@kernel
def mapped(x: Any, factor: Any, offset: Any, white: Any) -> Any:
    """Return the new level of a level, rounded and clipped, as int32."""
    found = np.float64(x) * factor + offset
    found = found if found > ZERO else ZERO
    return np.int32((found if found < white else white) + HALF)


@kernel
def mean_of_levels(image: Any) -> Any:
    """Return the mean of a flat image of levels, as float64."""
    found = np.uint64(0)
    for i in range(np.uint64(image.size)):
        found += np.uint64(image[i])
    return np.float64(found) / np.float64(image.size)


@kernel
def map_wide(image: Any, factor: Any, offset: Any) -> None:
    """Map a flat image of uint16 in place."""
    for i in range(np.uint64(image.size)):
        image[i] = np.uint16(mapped(image[i], factor, offset, WIDE_WHITE))


@kernel
def map_floats(image: Any, factor: Any, offset: Any) -> None:
    """Map a flat image of floats in place."""
    for i in range(np.uint64(image.size)):
        image[i] = unit(np.float32(np.float64(image[i]) * factor + offset))


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if record["apply"]:
        source = src.reshape(src.size)
        step = WHITE if params["brightness_by_max"] else mean_of_levels(source)
        factor, offset = line_of(params, record, step, WHITE)
        for x in range(LEVELS):
            scratch[x] = mapped(x, factor, offset, WHITE)
        look_up_all(source, dst.reshape(dst.size), scratch)
    else:
        begin(src, dst)


@kernel
def _run_wide(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        step = WIDE_WHITE if params["brightness_by_max"] else mean_of_levels(image)
        factor, offset = line_of(params, record, step, WIDE_WHITE)
        map_wide(image, factor, offset)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        step = ONE
        if not params["brightness_by_max"]:
            sums = add_lanes(image, np.uint64(0), np.uint64(image.size), EMPTY)
            step = total(sums) / np.float64(image.size)
        factor, offset = line_of(params, record, step, ONE)
        if factor != ONE or offset != ZERO:
            map_floats(image, factor, offset)


def _plain_of(white: np.float64) -> Any:
    def plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        dst[...] = src
        if record["apply"]:
            mean = np.float64(src.sum(dtype=np.uint64)) / src.size
            step = white if params["brightness_by_max"] else mean
            factor, offset = line_of(params, record, step, white)
            dst[...] = np.floor(np.clip(src * factor + offset, 0, white) + HALF)

    return plain


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    step = ONE if params["brightness_by_max"] else plain_total(image) / image.size
    factor, offset = line_of(params, record, step, ONE)
    if factor == ONE and offset == ZERO:
        return image
    return plain_unit((image.astype(np.float64) * factor + offset).astype(np.float32))


@register
class BrightnessContrast(PixelOp):
    """Change contrast, then brightness."""

    brightness_limit: Annotated[Limit, LIMIT, "0 changes nothing, 1 adds white"] = (-0.2, 0.2)
    contrast_limit: Annotated[Limit, LIMIT, "0 changes nothing, 1 doubles values"] = (-0.2, 0.2)
    brightness_by_max: Annotated[bool, Flag(), "count in white, not in the image's mean"] = True
    ensure_safe_range: Annotated[bool, Flag(), "reduce both until nothing is clipped"] = False
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    of_levels = True
    clips_floats = True
    examples = (
        {"p": 0.9},
        {"brightness_limit": 1, "contrast_limit": (-1, 3), "brightness_by_max": False, "p": 0.9},
        {"brightness_limit": 1, "contrast_limit": 2, "ensure_safe_range": True, "p": 0.9},
    )
    picture = {"brightness_limit": (0.1, 0.1), "contrast_limit": (0.5, 0.5)}
    record = np.dtype([("brightness", "f8"), ("contrast", "f8"), APPLY])
    kernels = {"image": Kernel(_run, _plain_of(WHITE), in_place=True)}
    wide = {"image": Kernel(_run_wide, _plain_of(WIDE_WHITE), in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain_floats, in_place=True)}
    draw = staticmethod(_draw)

    def scratch(self, state: State) -> int:
        """Return the bytes of the table of levels of uint8."""
        return LEVELS if state.dtype == "uint8" else 0


brightness_contrast = function(BrightnessContrast)
