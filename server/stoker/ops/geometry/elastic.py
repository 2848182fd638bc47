"""Move every pixel a little, smoothly and at random, image and mask alike; the size is kept.

Draws: 0 applied if uniform < p; 1 the amount, uniform in its range; 2 words 0 and 1: a Philox key,
the record's `seed`. Displacement: `kernels.splines`; sampling: `kernels.warp`. Pixels from outside
of the image are filled. The image never folds: an amount is at most 0.48 spacings.
"""

from typing import Annotated, Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import Fill, Fills, MaskFill
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin
from stoker.ops.bases.rotated import Filter
from stoker.ops.bases.warped import warp_kernels
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Range, Span, Whole
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.resample import padded
from stoker.ops.kernels.sampling_points import sample_row
from stoker.ops.kernels.splines import (
    blend_points,
    displace_row,
    fill_points,
    fill_weights,
    plain_displacement,
    points_on,
    spline_bytes,
)
from stoker.ops.kernels.warp import plain_sample
from stoker.rng.draws import bernoulli, uniform_range, word

SMALLEST: Final = 8
LARGEST: Final = 1024
STEEPEST: Final = 0.48
SPACING: Final = Whole(SMALLEST, LARGEST)
AMOUNTS: Final = Span(0.0, STEEPEST * LARGEST)
"""Amount in spacings above which an image could fold."""


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["amount"] = uniform_range(key, 1, params["amount_low"], params["amount_high"])
    record["seed"][0] = word(key, 2, 0)
    record["seed"][1] = word(key, 2, 1)


@kernel
def _warp(src: Any, dst: Any, params: Any, record: Any, how: Any, scratch: Any) -> None:
    if not record["apply"]:
        begin(src, dst)
        return
    height, width, _ = src.shape
    spacing = int(params["spacing"])
    columns = points_on(width, spacing)
    count = 16 * points_on(height, spacing) * columns
    points = scratch[:count].view(np.int64)
    at = padded(count)
    weights = scratch[at : at + 32 * spacing].view(np.int64)
    at += padded(32 * spacing)
    line = scratch[at : at + 16 * columns].view(np.int64)
    at += padded(16 * columns)
    across = scratch[at : at + 8 * width].view(np.int64)
    places = (across, scratch[at + 8 * width : at + 16 * width].view(np.int64))
    fill_points(points, columns, record["seed"], record["amount"])
    fill_weights(weights, spacing)
    for y in range(height):
        blend_points(points, columns, y, spacing, weights, line)
        displace_row(line, y, spacing, weights, (height, width), places)
        sample_row(src, dst, y, places, how[0], how[1])


def _plain(src: Any, dst: Any, params: Any, record: Any, how: Any) -> None:
    dst[...] = src
    if record["apply"]:
        seed = (int(record["seed"][0]), int(record["seed"][1]))
        amount, spacing = float(record["amount"]), int(params["spacing"])
        at = plain_displacement(src.shape[:2], spacing, seed, amount)
        plain_sample(src, dst, (*at, True), *how)


@register
class Elastic(Fills, PixelOp):
    """Move every pixel a little, smoothly and at random."""

    amount_range: Annotated[Range, AMOUNTS, "greatest move along an axis, pixels"] = (2.0, 12.0)
    spacing: Annotated[int, SPACING, "pixels between random points: more is smoother"] = 32
    interpolation: Filter = "bilinear"
    fill: Fill = 0
    mask_fill: MaskFill = 0
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    moves_pixels = True
    examples = (
        {"fill": 114, "mask_fill": 200, "p": 0.9},
        {"amount_range": (0, 3), "spacing": 8, "interpolation": "nearest", "p": 0.5},
    )
    picture = {"amount_range": (12, 12)}
    varied = {"amount_range": ((1, 3.5),), "spacing": (8,)}
    record = np.dtype([("seed", "u8", (2,)), ("amount", "f8"), APPLY])
    units = {"amount": "px"}
    kernels = warp_kernels(_warp, _plain)
    draw = staticmethod(_draw)
    rescale: ClassVar[None] = None

    def check(self) -> None:
        """Check the parameters, and that points do not overtake each other."""
        given = self.amount_range
        super().check()
        Span(0.0, STEEPEST * self.spacing).check(self.name, "amount_range", given)

    def scratch(self, state: State) -> int:
        """Return the bytes of points, weights and a row of moves and positions."""
        height, width = state.bound[:2]
        return spline_bytes(height, width, self.spacing) + 16 * width


elastic = function(Elastic)
