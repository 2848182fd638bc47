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
from stoker.ops.bases.fills import Fill, Fills, MaskFill
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.functions import function
from stoker.ops.contract.parameter_limits import ATTEMPTS, LOWEST_RATIO, MAX_SIDE
from stoker.ops.contract.parameters import Interval, Probability, Range
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import rescale_box
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.kernels.cut import fill_rows, fill_values
from stoker.ops.kernels.points import stay
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
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _, width, channels = src.shape
    image = begin(src, dst)
    if record["apply"]:
        top, left = np.int64(record["top"]), np.int64(record["left"])
        rows, count = np.int64(record["height"]), np.int64(record["width"])
        start = (top * width + left) * channels
        fill_rows(image, (start, width * channels), rows, count, channels, params["fill"])


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    width = src.shape[1]
    image = begin(src, dst)
    if record["apply"]:
        top, left = np.int64(record["top"]), np.int64(record["left"])
        rows, count = np.int64(record["height"]), np.int64(record["width"])
        target = (top * width + left, width)
        fill_values(image, target, rows, count, params["mask_fill"][0])


def _box(record: Any) -> tuple[slice, slice]:
    top, left = int(record["top"]), int(record["left"])
    return slice(top, top + int(record["height"])), slice(left, left + int(record["width"]))


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        dst[_box(record)] = params["fill"][: src.shape[2]]


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        dst[_box(record)] = params["mask_fill"][0]


@kernel
def _rescale(params: Any, record: Any, sizes: Any) -> bool:
    if record["height"] > 0:  # else no box fitted
        rescale_box(params, record, sizes)
    return True


@register
class Erase(Fills, PixelOp):
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

    image_dtypes = ANY_DTYPE
    moves_pixels = False
    examples = ({"fill": 114, "mask_fill": 200, "p": 0.9}, {"scale": (0.1, 0.9), "p": 0.5})
    picture = {"scale": (0.1, 0.2), "fill": 127}
    record = np.dtype([("top", "i4"), ("left", "i4"), ("height", "i4"), ("width", "i4"), APPLY])
    kernels = {
        "image": Kernel(_run_image, _plain_image, in_place=True),
        "mask": Kernel(_run_mask, _plain_mask, in_place=True),
    }
    draw = staticmethod(_draw)
    forward = staticmethod(stay)
    rescale = staticmethod(_rescale)


erase = function(Erase)
