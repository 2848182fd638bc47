"""Fill a random box, with probability p, in image and mask alike, as torchvision's RandomErasing.

Draws: 0 applied if uniform < p. Then up to ten attempts, each with an area uniform in `scale` times
the image's and a ratio, height / width, log-uniform in `ratio`; the first box that is smaller than
the image in both directions is placed uniformly. Attempt a reads draws 4a + 1 (area), 4a + 2
(ratio), 4a + 3 (top), 4a + 4 (left). Sides are rounded to floor(x + 0.5). If no attempt fits, the
box is empty.
"""

from typing import Annotated, Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.filled_parts import FillsParts, filling_kernels
from stoker.ops.bases.fills import Fill, MaskFill
from stoker.ops.bases.pixelwise import APPLY
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import ATTEMPTS, LOWEST_RATIO, MAX_SIDE
from stoker.ops.contract.parameters import Interval, Probability, Range
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import rescale_box
from stoker.ops.kernels.cut import fill_box
from stoker.rng.draws import bernoulli, integers, log_uniform, uniform_range
from stoker.rng.maths import floor, sqrt


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["top"] = record["left"] = record["height"] = record["width"] = 0
    area = float(height * width)
    for attempt in range(ATTEMPTS):
        k = 4 * attempt
        target = area * uniform_range(key, k + 1, params["scale_low"], params["scale_high"])
        ratio = log_uniform(key, k + 2, params["ratio_low"], params["ratio_high"])
        h = floor(sqrt(target * ratio) + 0.5)
        w = floor(sqrt(target / ratio) + 0.5)
        if 0 < w < width and 0 < h < height:
            record["top"] = int(integers(key, k + 3, height - h + 1))
            record["left"] = int(integers(key, k + 4, width - w + 1))
            record["height"] = h
            record["width"] = w
            return


@kernel
def _fill(image: Any, shape: Any, record: Any, value: Any) -> None:
    place = np.int64(record["top"]), np.int64(record["left"])
    size = np.int64(record["height"]), np.int64(record["width"])
    fill_box(image, shape, (*place, *size), value)


def _where(shape: tuple[int, ...], record: Any) -> np.ndarray:
    found = np.zeros(shape, bool)
    top, left = int(record["top"]), int(record["left"])
    found[top : top + int(record["height"]), left : left + int(record["width"])] = True
    return found


@kernel
def _rescale(params: Any, record: Any, sizes: Any) -> bool:
    if record["height"] > 0:  # else no box fitted
        rescale_box(params, record, sizes)
    return True


@register
class Erase(FillsParts):
    """Fill a random box."""

    scale: Annotated[Range, Interval(0.0, 1.0), "box's area, as fractions of the image's area"] = (
        0.02,
        0.33,
    )
    ratio: Annotated[Range, Interval(LOWEST_RATIO, MAX_SIDE), "box's height / width"] = (
        0.3,
        3.3,
    )
    fill: Fill = 0
    mask_fill: MaskFill = 0
    p: Probability = 0.5

    examples = ({"fill": 114, "mask_fill": 200, "p": 0.9}, {"scale": (0.1, 0.9), "p": 0.5})
    picture = {"scale": (0.1, 0.2), "fill": 127}
    record = np.dtype([("top", "i4"), ("left", "i4"), ("height", "i4"), ("width", "i4"), APPLY])
    kernels = filling_kernels(_fill, _where)
    draw = staticmethod(_draw)
    rescale = staticmethod(_rescale)


erase = function(Erase)
