"""Resize the shorter side to a random length, keeping the ratio: image and mask alike.

Draw 0 is the length, an integer uniform in `sizes`. The record has it and the size of the result.
"""

from typing import Annotated, Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fit import (
    check_max,
    fit_scratch,
    fit_short,
    short_most,
    short_state,
)
from stoker.ops.bases.resized import DrawnSize
from stoker.ops.bases.resizing import Interpolation
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.parameters import Whole, WholeRange, WholeSpan
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State
from stoker.rng.draws import integers


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    low, high = int(params["sizes_low"]), int(params["sizes_high"])
    size = low + int(integers(key, 0, high - low + 1))
    record["size"] = size
    record["height"], record["width"] = fit_short(height, width, size, int(params["max_size"]))


@kernel
def _rescale(params: Any, record: Any, sizes: Any) -> bool:
    size, most = int(record["size"]), int(params["max_size"])
    record["height"], record["width"] = fit_short(sizes[2], sizes[3], size, most)
    return True


@register
class RandomShortSideScale(DrawnSize):
    """Resize the shorter side to a random length, keeping the ratio."""

    sizes: Annotated[WholeRange, WholeSpan(1, MAX_SIDE), "the shorter side, in pixels"]
    max_size: Annotated[int, Whole(1, MAX_SIDE), "the most for the longer side, in pixels"]
    interpolation: Interpolation = "bilinear"

    examples = (
        {"sizes": (12, 40), "max_size": 70},
        {"sizes": (5, 90), "max_size": 90, "interpolation": "bicubic"},
    )
    picture = {"sizes": (80, 120), "max_size": 240}
    varied = {"sizes": ((16, 30),), "max_size": (40,)}
    record = np.dtype([("size", "i4"), ("height", "i4"), ("width", "i4")])
    draw = staticmethod(_draw)
    rescale = staticmethod(_rescale)

    def check(self) -> None:
        """Check the parameters; the longer side is not shorter than the shorter one."""
        super().check()
        check_max(self.name, self.sizes[1], self.max_size)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of bounded sizes."""
        self.require_pixels(states)
        need = [
            fit_scratch(s, short_most(s, self.sizes[1], self.max_size), self.interpolation)
            for s in states
        ]
        after = [short_state(s, self.sizes, self.max_size) for s in states]
        return tuple(after), max(need, default=0)


random_short_side_scale = function(RandomShortSideScale)
