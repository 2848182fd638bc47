"""Change brightness, contrast, saturation and hue at random, as torchvision's ColorJitter.

Draws: 0 brightness, 1 contrast, 2 saturation, each a factor uniform in [max(0, 1 - a), 1 + a] for
the parameter a; 3 hue, turns uniform in [-hue, hue]; 4 the order of the four steps: a number below
24, a permutation in lexicographic order. The record holds all of these; `order[i]` is the i-th
step.

A factor of 1 and a turn of 0 change nothing. brightness blends with black, contrast with the mean
gray of the image at that step, saturation with each pixel's gray. An image of one channel has
has neither saturation nor hue. Arithmetic: `kernels.color`, for floats `kernels.color_floats`.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import begin
from stoker.ops.bases.wide_floats import float_room, through_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Number
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import (
    FLOAT,
    GRAY_OR_RGB,
    LEVELS_FLOATS,
    WIDE,
)
from stoker.ops.contract.states import State
from stoker.ops.kernels.color import (
    LOW,
    ONE,
    blend_with,
    fixed,
    mean_level,
    plain_blend,
    plain_hue,
    plain_luma,
    plain_mean,
    rotate_hue,
    saturate,
)
from stoker.ops.kernels.color_floats import (
    MEAN_BYTES,
    blend_unit,
    mean_gray,
    plain_blend_unit,
    plain_gray,
    plain_mean_gray,
    plain_rotate_unit,
    rotate_unit,
    saturate_unit,
)
from stoker.ops.kernels.float_levels import ZERO
from stoker.rng.draws import integers, uniform_range

BRIGHTNESS: Final = 0
CONTRAST: Final = 1
SATURATION: Final = 2
MOST: Final = 16.0
DISTANCE: Final = Number(0.0, MOST)
"""Maximum parameter: with factors up to 17 every sum stays in int32."""


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    b, c, s, h = params["brightness"], params["contrast"], params["saturation"], params["hue"]
    record["brightness"] = uniform_range(key, 0, max(0.0, 1.0 - b), 1.0 + b)
    record["contrast"] = uniform_range(key, 1, max(0.0, 1.0 - c), 1.0 + c)
    record["saturation"] = uniform_range(key, 2, max(0.0, 1.0 - s), 1.0 + s)
    record["hue"] = uniform_range(key, 3, -h, h)
    write_order(int(integers(key, 4, 24)), record["order"])


@kernel
def write_order(number: int, order: Any) -> None:
    """Write permutation `number` of (0, 1, 2, 3), in lexicographic order."""
    for i in range(4):
        order[i] = i
    block = 6
    for i in range(3):
        pick = i + number // block
        number = number % block
        taken = order[pick]
        for j in range(pick, i, -1):
            order[j] = order[j - 1]
        order[i] = taken
        block //= 3 - i


@kernel
def _step(step: int, image: Any, pixels: int, channels: int, record: Any) -> None:
    if step == BRIGHTNESS:
        factor = fixed(record["brightness"])
        if factor != ONE:
            blend_with(image, factor, LOW)
    elif step == CONTRAST:
        factor = fixed(record["contrast"])
        if factor != ONE:
            blend_with(image, factor, mean_level(image, pixels, channels))
    elif channels == 3:
        _color_step(step, image, record)


@kernel
def _color_step(step: int, image: Any, record: Any) -> None:
    if step == SATURATION:
        factor = fixed(record["saturation"])
        if factor != ONE:
            saturate(image, factor)
    else:
        shift = fixed(6.0 * record["hue"])
        if shift != LOW:
            rotate_hue(image, shift)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    height, width, channels = src.shape
    image, source = dst.reshape(dst.size), src.reshape(src.size)
    if src.ctypes.data != dst.ctypes.data:
        for i in range(np.uint64(source.size)):
            image[i] = source[i]
    for step in record["order"]:
        _step(step, image, height * width, channels, record)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image, channels = begin(src, dst), src.shape[2]
    for step in record["order"]:
        if step == BRIGHTNESS:
            blend_unit(image, record["brightness"], ZERO)
        elif step == CONTRAST:
            blend_unit(image, record["contrast"], mean_gray(image, channels, scratch))
        elif step == SATURATION and channels == 3:
            saturate_unit(image, record["saturation"])
        elif channels == 3:
            rotate_unit(image, record["hue"])


def _plain_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = src
    with np.errstate(all="ignore"):
        for step in np.asarray(record["order"]):
            if step == BRIGHTNESS:
                image = plain_blend_unit(image, float(record["brightness"]), ZERO)
            elif step == CONTRAST:
                mean = plain_mean_gray(image)
                image = plain_blend_unit(image, float(record["contrast"]), mean)
            elif step == SATURATION and image.shape[2] == 3:
                image = plain_blend_unit(image, float(record["saturation"]), plain_gray(image))
            elif image.shape[2] == 3:
                image = plain_rotate_unit(image, float(record["hue"]))
    dst[...] = image


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = src.astype(np.int64)
    steps = (_plain_brightness, _plain_contrast, _plain_saturation, _plain_hue)
    for step in np.asarray(record["order"]):
        image = steps[step](image, record)
    dst[...] = image


def _plain_brightness(image: np.ndarray, record: Any) -> np.ndarray:
    return plain_blend(image, int(fixed(record["brightness"])), 0)


def _plain_contrast(image: np.ndarray, record: Any) -> np.ndarray:
    return plain_blend(image, int(fixed(record["contrast"])), plain_mean(image))


def _plain_saturation(image: np.ndarray, record: Any) -> np.ndarray:
    return plain_blend(image, int(fixed(record["saturation"])), plain_luma(image))


def _plain_hue(image: np.ndarray, record: Any) -> np.ndarray:
    return image if image.shape[2] == 1 else plain_hue(image, int(fixed(6.0 * record["hue"])))


@register
class ColorJitter(Op):
    """Change brightness, contrast, saturation and hue."""

    brightness: Annotated[float, DISTANCE, "greatest distance of the factor from 1"] = 0.0
    contrast: Annotated[float, DISTANCE, "the same"] = 0.0
    saturation: Annotated[float, DISTANCE, "the same"] = 0.0
    hue: Annotated[float, Number(0.0, 0.5), "greatest turn of the color circle, in turns"] = 0.0

    image_dtypes = LEVELS_FLOATS
    image_channels = GRAY_OR_RGB
    of_levels = True
    clips_floats = True
    examples = (
        {"brightness": 0.4, "contrast": 0.5, "saturation": 0.6, "hue": 0.2},
        {"contrast": 0.9},
    )
    picture = {"brightness": 0.3, "contrast": 0.3, "saturation": 0.5, "hue": 0.3}
    varied = {"brightness": (0.3,), "contrast": (0.3,), "saturation": (0.3,)}
    random = True
    record = np.dtype(
        [
            ("brightness", "f8"),
            ("contrast", "f8"),
            ("saturation", "f8"),
            ("hue", "f8"),
            ("order", "u1", (4,)),
        ]
    )
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain_floats, in_place=True)}
    wide = through_floats(floats["image"])
    draw = staticmethod(_draw)
    rescale = staticmethod(keep_record)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        self.require_pixels(states)
        rooms = [float_room(state, self.wide["image"]) for state in states if state.dtype == WIDE]
        mean = MEAN_BYTES if any(state.dtype in (FLOAT, WIDE) for state in states) else 0
        return states, max(rooms, default=0) + mean


color_jitter = function(ColorJitter)
