"""Turn the hue by a part of the color circle, with probability p: torchvision's adjust_hue.

Draws: 0 applied if uniform < p; 1 the turn, uniform in its range. The arithmetic is that of the
same step of color_jitter: `kernels.color`, for floats `kernels.color_floats`. An image of one
channel has no hue.
"""

from typing import Annotated, Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin, plain_floats
from stoker.ops.bases.wide_floats import through_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Range, Span
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import GRAY_OR_RGB, LEVELS_FLOATS
from stoker.ops.kernels.color import fixed, plain_hue, rotate_hue
from stoker.ops.kernels.color_floats import plain_rotate_unit, rotate_unit
from stoker.rng.draws import bernoulli, uniform_range


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["turn"] = uniform_range(key, 1, params["turn_low"], params["turn_high"])


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"] and src.shape[2] == 3:
        rotate_hue(image, fixed(6.0 * record["turn"]))


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"] and src.shape[2] == 3:
        dst[...] = plain_hue(src.astype(np.int64), int(fixed(6.0 * record["turn"])))


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"] and src.shape[2] == 3:
        rotate_unit(image, record["turn"])


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    return plain_rotate_unit(image, float(record["turn"]))


@register
class Hue(PixelOp):
    """Turn the hue."""

    turn_range: Annotated[Range, Span(-0.5, 0.5), "part of the color circle"] = (-0.1, 0.1)
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    image_channels = GRAY_OR_RGB
    of_levels = True
    clips_floats = True
    examples = ({"p": 0.9}, {"turn_range": (-0.5, 0.5), "p": 0.5})
    picture = {"turn_range": (0.35, 0.35)}
    record = np.dtype([("turn", "f8"), APPLY])
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain_floats, in_place=True)}
    wide = through_floats(floats["image"])
    draw = staticmethod(_draw)


hue = function(Hue)
