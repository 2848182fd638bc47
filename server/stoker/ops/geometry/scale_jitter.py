"""Resize by a random factor of the size that fits: torchvision's ScaleJitter.

With factor 1 the image is the largest of its ratio that fits into `size`. Draw 0 is the factor s,
uniform in `scale`; both sides are multiplied by s times the smaller of size / side, and rounded
down; at least 1. Followed by a random crop to `size`, which fills what is too small, this is the
large-scale jitter of Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method",
2021, 3.1.

Difference: torchvision 0.21 compares the height with the second number of its target size, and the
width with the first; here `size` is (height, width).
"""

from typing import Annotated, Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fit import fit_scratch
from stoker.ops.bases.resized import DrawnSize
from stoker.ops.bases.resizing import Interpolation
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.parameters import Interval, Range, SidePair, Sides, both_sides
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State
from stoker.rng.draws import uniform_range
from stoker.rng.maths import floor


@kernel
def jittered(height: int, width: int, factor: float, params: Any) -> Any:
    """Return height and width for a factor, never above those that the state is declared with."""
    rows, columns = int(params["height"]), int(params["width"])
    tallest, widest = rows * params["scale_high"], columns * params["scale_high"]
    fit = min(rows / height, columns / width) * factor
    tall = min(max(floor(height * fit), 1), max(floor(tallest), 1))
    wide = min(max(floor(width * fit), 1), max(floor(widest), 1))
    return np.int64(tall), np.int64(wide)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    factor = uniform_range(key, 0, params["scale_low"], params["scale_high"])
    record["scale"] = factor
    record["height"], record["width"] = jittered(height, width, factor, params)


@kernel
def _rescale(params: Any, record: Any, sizes: Any) -> bool:
    factor = float(record["scale"])
    record["height"], record["width"] = jittered(sizes[2], sizes[3], factor, params)
    return True


@register
class ScaleJitter(DrawnSize):
    """Resize by a random factor of the size that fits."""

    size: Annotated[Sides, SidePair(1), "what the image fits into with factor 1, in pixels"]
    scale: Annotated[Range, Interval(0.0, MAX_SIDE), "factor"] = (0.1, 2.0)
    interpolation: Interpolation = "bilinear"

    examples = (
        {"size": 32},
        {"size": (20, 40), "scale": (0.5, 1.5), "interpolation": "bicubic"},
        {"size": 24, "scale": (0.2, 3.0), "interpolation": "nearest"},
    )
    picture = {"size": 160, "scale": (0.5, 0.5)}
    varied = {"size": ((30, 24),), "scale": ((0.6, 1.3),)}
    record = np.dtype([("scale", "f8"), ("height", "i4"), ("width", "i4")])
    draw = staticmethod(_draw)
    rescale = staticmethod(_rescale)

    def check(self) -> None:
        """Check the parameters; no side of a result exceeds the greatest side."""
        super().check()
        high = MAX_SIDE / max(both_sides(self.size))
        self.settle(scale=Interval(0.0, high).check(self.name, "scale", self.scale))

    def most(self) -> tuple[int, int]:
        """Return the largest height and width of a result."""
        tall, wide = both_sides(self.size)
        return max(floor(tall * self.scale[1]), 1), max(floor(wide * self.scale[1]), 1)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of bounded sizes."""
        self.require_pixels(states)
        most = self.most()
        need = [fit_scratch(state, most, self.interpolation) for state in states]
        return tuple(s.resized(None, None, most) for s in states), max(need, default=0)


scale_jitter = function(ScaleJitter)
