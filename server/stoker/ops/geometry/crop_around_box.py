"""Crop around one box of the sample, with a margin: for classifiers of objects.

The box is clipped to the image; `margin` times its width is added on the left and on the right,
`margin` times its height above and below. Edges are rounded outward to whole pixels and clipped to
the image; the crop has at least one pixel. A box whose corners are NaN or in the wrong order does
not count. If no box counts, the crop is the whole image.

Draw 0 is an integer: which of the boxes that count, if `which` is random; else nothing is drawn.
The record has the crop, and the number of the box in the call, -1 for none.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.box_cut import BoxCut
from stoker.ops.bases.box_resize import BOX_RECORD
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Number, Word
from stoker.ops.contract.registry import register
from stoker.ops.geometry.bbox_safe_random_crop import counts
from stoker.ops.kernels.points import lower, upper
from stoker.rng.draws import integers
from stoker.rng.maths import floor

MOST_MARGIN: Final = 16.0
CHOICES: Final = ("random", "largest", "first")
RANDOM, LARGEST = 0, 1


@kernel
def area_inside(at: Any, n: int, height: int, width: int) -> float:
    """Return the area of box n inside of the image, in pixels."""
    tall = lower(np.float64(at[n, 3]), float(height)) - upper(np.float64(at[n, 1]), 0.0)
    wide = lower(np.float64(at[n, 2]), float(width)) - upper(np.float64(at[n, 0]), 0.0)
    return upper(tall, 0.0) * upper(wide, 0.0)


@kernel
def chosen(key: Any, which: int, at: Any, height: int, width: int) -> int:
    """Return the number of the box to crop around; -1 if no box counts.

    The largest is the first of those with the largest area inside of the image.
    """
    count = 0
    for n in range(at.shape[0]):
        count += int(counts(at, n))
    left = int(integers(key, 0, count)) if which == RANDOM and count > 0 else 0
    best, most = -1, -1.0
    for n in range(at.shape[0]):
        if not counts(at, n):
            continue
        if which == LARGEST:
            area = area_inside(at, n, height, width)
            if area > most:
                best, most = n, area
        elif left == 0:
            return n
        else:
            left -= 1
    return best


@kernel
def around(low: Any, high: Any, margin: float, side: int) -> Any:
    """Return the first pixel of the crop along an axis, and its length: at least 1."""
    start = lower(upper(np.float64(low), 0.0), float(side))
    end = lower(upper(np.float64(high), 0.0), float(side))
    more = margin * (end - start)
    first = min(max(floor(start - more), 0), side - 1)
    last = min(max(-floor(-(end + more)), first + 1), side)
    return np.int64(first), np.int64(last - first)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any, items: Any) -> None:
    at, margin = items.view(np.float32), float(params["margin"])
    box = chosen(key, int(params["which"]), at, height, width)
    top, tall, left, wide = np.int64(0), np.int64(height), np.int64(0), np.int64(width)
    if box >= 0:
        top, tall = around(at[box, 1], at[box, 3], margin, height)
        left, wide = around(at[box, 0], at[box, 2], margin, width)
    record["top"], record["height"] = top, tall
    record["left"], record["width"] = left, wide
    record["box"] = box


@register
class CropAroundBox(BoxCut):
    """Crop around one box of the call, with a margin."""

    which: Annotated[
        str, Word(CHOICES), "the box: random, the largest inside of the image, or the first"
    ] = "random"
    margin: Annotated[
        float,
        Number(0.0, MOST_MARGIN),
        "what is added on each side, as part of the box's width or height",
    ] = 0.0

    examples = ({}, {"margin": 0.3})
    picture = {"margin": 0.1}
    record = np.dtype([*BOX_RECORD.descr, ("box", "i4")])
    draw = staticmethod(_draw)


crop_around_box = function(CropAroundBox)
