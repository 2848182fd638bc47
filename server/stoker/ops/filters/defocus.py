"""Blur with a disk of drawn radius, with probability p, as a lens out of focus: Albumentations'.

Draws: 0 applied if uniform < p; 1 the radius, an integer of its range; 2 the alias blur, uniform in
its range. The window has 2 max(radius, 8) + 1 pixels on a side. Its pixels within the radius of the
center weigh the same; a Gaussian of 3 by 3 pixels, for radii above 8 of 5 by 5, with the alias blur
as its standard deviation softens the edge. The Gaussian mirrors the window at its outermost pixels.
Weights are divided by their sum, so that a flat image stays as it is; in Albumentations the
mirrored pixels make it brighter if the radius is 8 or more.

The weights are rounded to integers with sum 2**24: floor(2**24 w + 0.5), the center takes the rest.
Sums: `bases.weighted`.
"""

from typing import Annotated, Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, PixelOp
from stoker.ops.bases.weighted import (
    WHOLE,
    weighted_bytes,
    weighted_floats,
    weighted_levels,
    window_weights,
)
from stoker.ops.bases.wide_floats import through_floats
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Range, Span, WholeRange, WholeSpan
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.extend import place
from stoker.rng.draws import bernoulli, integers, uniform_range
from stoker.rng.maths import exp, floor

LEAST: Final = 8
"""Half a window is not smaller, so that small disks have room for the Gaussian."""
LARGEST: Final = 31
RADIUS: Final = WholeSpan(1, LARGEST)
SOFT: Final = Span(1e-3, 10.0)
"""Its square is a divisor, and that of a tiny number is 0."""


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    low, high = int(params["radius_low"]), int(params["radius_high"])
    record["radius"] = low + int(integers(key, 1, high - low + 1))
    record["alias_blur"] = uniform_range(
        key, 2, params["alias_blur_low"], params["alias_blur_high"]
    )


@kernel
def window_side(radius: int) -> int:
    """Return the side of the window of a disk."""
    return 2 * max(radius, LEAST) + 1


@kernel
def softened(x: int, y: int, radius: int, middle: float, side: float, end: float) -> float:
    """Return the share of a pixel of the window, x and y from its center, that the disk covers.

    `middle`, `side` and `end` are the Gaussian's weights 0, 1 and 2 pixels away.
    """
    half = max(radius, LEAST)
    total = 0.0
    for dy in range(-2, 3):
        for dx in range(-2, 3):
            v = place(y + dy + half, 2 * half + 1, 1) - half
            u = place(x + dx + half, 2 * half + 1, 1) - half
            if u * u + v * v <= radius * radius:
                down = middle if dy == 0 else side if abs(dy) == 1 else end
                total += down * (middle if dx == 0 else side if abs(dx) == 1 else end)
    return total


@kernel
def fill_disk(radius: int, alias_blur: float, weights: Any) -> None:
    """Write the weights of the window, `(side * side,) int64`, rows from the top."""
    scale = -0.5 / (alias_blur * alias_blur)
    one, two = exp(scale), exp(4.0 * scale) if radius > LEAST else 0.0
    whole = 1.0 + 2.0 * one + 2.0 * two
    middle, side, end = 1.0 / whole, one / whole, two / whole
    half = max(radius, LEAST)
    wide, last = 2 * half + 1, len(weights) - 1
    total = softened(0, 0, radius, middle, side, end)
    for n in range(last // 2):
        total += 2.0 * softened(n % wide - half, n // wide - half, radius, middle, side, end)
    unit, rest = 16777216.0 / total, WHOLE
    for n in range(last // 2):
        share = softened(n % wide - half, n // wide - half, radius, middle, side, end)
        weight = floor(share * unit + 0.5)
        weights[n] = weight
        weights[last - n] = weight
        rest -= 2 * weight
    weights[last // 2] = rest


@kernel
def disk_window(record: Any, scratch: Any) -> Any:
    """Return side and weights of the window of the disk; the weights are in scratch."""
    radius = int(record["radius"])
    size = window_side(radius)
    weights = window_weights(size, scratch)
    fill_disk(radius, float(record["alias_blur"]), weights)
    return size, weights


@register
class Defocus(PixelOp):
    """Blur with a disk."""

    radius_range: Annotated[WholeRange, RADIUS, "radius of the disk, in pixels"] = (3, 10)
    alias_blur_range: Annotated[Range, SOFT, "Gaussian that softens its edge"] = (0.1, 0.5)
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    examples = ({"p": 0.9}, {"radius_range": (1, 12), "alias_blur_range": (0.3, 2), "p": 0.5})
    picture = {"radius_range": (6, 6)}
    record = np.dtype([("radius", "i4"), ("alias_blur", "f8"), APPLY])
    kernels = {"image": weighted_levels(disk_window)}
    floats = {"image": weighted_floats(disk_window)}
    wide = through_floats(floats["image"])
    draw = staticmethod(_draw)
    rescale: ClassVar[None] = None

    def scratch(self, state: State) -> int:
        """Return the bytes of the weights, the image with its border and a line of sums."""
        return weighted_bytes(state, window_side(self.radius_range[1]))


defocus = function(Defocus)
