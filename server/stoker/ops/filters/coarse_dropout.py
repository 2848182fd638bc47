"""Fill several random boxes, with probability p, in image and mask alike: CoarseDropout.

As Albumentations' CoarseDropout with fractions (DeVries and Taylor, 2017: "Cutout"). Draws: 0
applied if uniform < p; 1 the number of boxes, an integer in its range. Box i reads draws 4i + 2
(height) and 4i + 3 (width), each uniform in its range times the image's side and rounded to
floor(x + 0.5), at least 1; and 4i + 4 (top) and 4i + 5 (left), integers at which the box is inside
the image. Boxes may overlap.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.filled_parts import FillsParts, filling_kernels
from stoker.ops.bases.fills import Fill, MaskFill
from stoker.ops.bases.pixelwise import APPLY
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Interval, Probability, Range, WholeRange, WholeSpan
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import span
from stoker.ops.kernels.cut import fill_box
from stoker.rng.draws import bernoulli, integers, uniform_range
from stoker.rng.maths import floor

MAX_HOLES: Final = 32
"""Maximum number of boxes of one call."""


@kernel
def _side(key: Any, index: int, low: float, high: float, side: int) -> int:
    return min(max(floor(side * uniform_range(key, index, low, high) + 0.5), 1), side)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    low, high = int(params["holes_low"]), int(params["holes_high"])
    count = low + int(integers(key, 1, high - low + 1))
    record["count"] = count
    boxes = record["boxes"]
    for k in range(4 * count, 4 * MAX_HOLES):
        boxes[k] = 0
    for i in range(count):
        k = 4 * i
        h = _side(key, k + 2, params["height_low"], params["height_high"], height)
        w = _side(key, k + 3, params["width_low"], params["width_high"], width)
        boxes[k] = int(integers(key, k + 4, height - h + 1))
        boxes[k + 1] = int(integers(key, k + 5, width - w + 1))
        boxes[k + 2] = h
        boxes[k + 3] = w


@kernel
def _fill(image: Any, shape: Any, record: Any, value: Any) -> None:
    boxes = record["boxes"]
    for k in range(0, 4 * int(record["count"]), 4):
        place = np.int64(boxes[k]), np.int64(boxes[k + 1])
        size = np.int64(boxes[k + 2]), np.int64(boxes[k + 3])
        fill_box(image, shape, (*place, *size), value)


def _where(shape: tuple[int, ...], record: Any) -> np.ndarray:
    found = np.zeros(shape, bool)
    for top, left, rows, count in record["boxes"].reshape(-1, 4)[: record["count"]]:
        found[top : top + rows, left : left + count] = True
    return found


@kernel
def _rescale(params: Any, record: Any, sizes: Any) -> bool:
    height, width, tall, wide = sizes
    boxes = record["boxes"]
    for k in range(0, 4 * int(record["count"]), 4):
        top, rows = span(np.int64(boxes[k]), np.int64(boxes[k + 2]), height, tall)
        left, count = span(np.int64(boxes[k + 1]), np.int64(boxes[k + 3]), width, wide)
        boxes[k], boxes[k + 1], boxes[k + 2], boxes[k + 3] = top, left, rows, count
    return True


@register
class CoarseDropout(FillsParts):
    """Fill several random boxes."""

    holes_range: Annotated[WholeRange, WholeSpan(1, MAX_HOLES), "(fewest, most) boxes, 1 to 32"] = (
        1,
        2,
    )
    height_range: Annotated[
        Range, Interval(0.0, 1.0), "a box's height, as fractions of the image's height"
    ] = (0.1, 0.2)
    width_range: Annotated[
        Range, Interval(0.0, 1.0), "a box's width, as fractions of the image's width"
    ] = (0.1, 0.2)
    fill: Fill = 0
    mask_fill: MaskFill = 0
    p: Probability = 0.5

    examples = (
        {"fill": 114, "mask_fill": 200, "p": 0.9},
        {"holes_range": (5, 32), "height_range": (0.01, 1), "width_range": (0.1, 0.1), "p": 0.5},
    )
    picture = {"holes_range": (6, 6), "fill": 127}
    record = np.dtype([("count", "i4"), ("boxes", "i4", (4 * MAX_HOLES,)), APPLY])
    kernels = filling_kernels(_fill, _where)
    draw = staticmethod(_draw)
    rescale = staticmethod(_rescale)


coarse_dropout = function(CoarseDropout)
