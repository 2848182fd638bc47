"""Crop at random without losing a box: Albumentations' BBoxSafeRandomCrop.

Each box shrinks by `erosion_rate` of its width and height on every side. The crop contains all of
the shrunk boxes: its upper edge is a pixel edge from 0 to their lowest top (rounded down), its
lower edge one from their highest bottom (rounded up) to the image's height, all equally likely;
left and right likewise. Boxes are clipped to the crop; without erosion it contains them whole, as
far as they are inside of the image. An image without boxes is cropped around a random pixel.

Differences from Albumentations: whole boxes stay (its corners are rounded down, so that the crop
may cut a fraction of a pixel off a box), the rate ends at 0.5, where only the center of a box must
stay, and images without boxes are cropped for any rate.

Draws, all integers: 0 top, 1 left, 2 bottom, 3 right; 4 and 5 the row and column of the pixel,
read only if there are no boxes. Boxes count as far as they are inside of the image; a box whose
corners are NaN, or in the wrong order, does not count.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.box_cut import BoxCut
from stoker.ops.bases.box_resize import BOX_RECORD
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Number
from stoker.ops.contract.registry import register
from stoker.ops.kernels.points import lower, upper
from stoker.rng.draws import integers
from stoker.rng.maths import floor

RATE: Final = Number(0.0, 0.5)


@kernel
def counts(at: Any, n: int) -> bool:
    """Whether the corners of box n are in order; those of a box with NaN are not."""
    return bool(at[n, 0] <= at[n, 2] and at[n, 1] <= at[n, 3])


@kernel
def kept_span(at: Any, axis: int, rate: float, side: int) -> Any:
    """Return the first pixel that a crop must contain along an axis, and the edge after the last.

    Args:
        at: (n, words) float32, boxes as x0, y0, x1, y1.
        axis: 0 for x, 1 for y.
        rate: how much each box shrinks on either side, as part of its own side.
        side: of the image, in pixels.

    Returns:
        (first, end) with 0 <= first < end <= side; (side, 0) if no box counts.
    """
    low, high, count = float(side), 0.0, 0
    for n in range(at.shape[0]):
        if counts(at, n):
            start = lower(upper(np.float64(at[n, axis]), 0.0), float(side))
            end = lower(upper(np.float64(at[n, axis + 2]), 0.0), float(side))
            margin = rate * (end - start)
            low, high = lower(low, start + margin), upper(high, end - margin)
            count += 1
    if count == 0:
        return np.int64(side), np.int64(0)
    first = min(floor(low), side - 1)
    return np.int64(first), np.int64(max(-floor(-high), first + 1))


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any, items: Any) -> None:
    at, rate = items.view(np.float32), float(params["erosion_rate"])
    top, bottom = kept_span(at, 1, rate, height)
    left, right = kept_span(at, 0, rate, width)
    if top >= bottom:
        top, left = np.int64(integers(key, 4, height)), np.int64(integers(key, 5, width))
        bottom, right = top + 1, left + 1
    y0, x0 = int(integers(key, 0, top + 1)), int(integers(key, 1, left + 1))
    y1 = int(bottom) + int(integers(key, 2, height - bottom + 1))
    x1 = int(right) + int(integers(key, 3, width - right + 1))
    record["top"] = y0
    record["left"] = x0
    record["height"] = y1 - y0
    record["width"] = x1 - x0


@register
class BboxSafeRandomCrop(BoxCut):
    """Crop at random without losing a box; decided from the boxes of the call."""

    erosion_rate: Annotated[float, RATE, "the part of each box that may be cut off"] = 0.0

    examples = ({}, {"erosion_rate": 0.3})
    record = BOX_RECORD
    draw = staticmethod(_draw)


bbox_safe_random_crop = function(BboxSafeRandomCrop)
