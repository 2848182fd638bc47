"""Blur along a line of drawn length and direction, with probability p, like a moving camera.

Draws: 0 and 1 `bases.blur`; 2 the direction in degrees, uniform, counter-clockwise from the
right. The window is a line of `size` points, one pixel apart, through its center; a point between
pixels is shared by the four pixels around it. The image is mirrored at its outermost pixel.

In units of 2**-8 pixels point i is floor(256 i cos + 0.5) to the right and
floor(256 i sin + 0.5) up; points i and -i mirror each other. Its shares of the four pixels are the
products of the distances, with sum 2**16. A pixel's weight is its sum of shares times 2**8 / size,
rounded, halves up; the center weight is adjusted so that the sum is 2**24. Sums, also of floats:
`bases.weighted`.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.blur import SIZE, BlurOp, OddSpan, draw_window
from stoker.ops.bases.pixelwise import APPLY
from stoker.ops.bases.weighted import (
    WHOLE,
    weighted_bytes,
    weighted_floats,
    weighted_levels,
    window_weights,
)
from stoker.ops.bases.wide_floats import through_floats
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Range, Span, WholeRange
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State
from stoker.ops.kernels.affinity import RADIANS
from stoker.rng.draws import uniform_range
from stoker.rng.maths import cos, floor, sin

DEGREES: Final = Span(-360.0, 360.0)
POINT: Final = 256
"""Units per pixel of the points' coordinates."""


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    draw_window(key, params, height, width, record)
    record["angle"] = uniform_range(key, 2, params["degrees_low"], params["degrees_high"])


@kernel
def fill_line(angle: float, size: int, weights: Any) -> None:
    """Write the weights of the lower half of the window, including the middle row.

    Args:
        angle: degrees, counter-clockwise from the right.
        size: side of the window, odd.
        weights: `(size * size,) int64`, rows from the top; symmetric about the center, so that
            pixel n and pixel `size * size - 1 - n` have the same weight.
    """
    turn = angle * RADIANS
    right, up = 256.0 * cos(turn), 256.0 * sin(turn)
    middle, last = size * size // 2, size * size - 1
    for n in range(size * size):
        weights[n] = 0
    for i in range(1, size // 2 + 1):
        x, y = floor(i * right + 0.5), -floor(i * up + 0.5)
        fx, fy = x % POINT, y % POINT
        corner = middle + (y // POINT) * size + x // POINT
        for row in range(2):
            for column in range(2):
                share = (fy if row else POINT - fy) * (fx if column else POINT - fx)
                if share > 0:
                    weights[corner + row * size + column] += share
                    weights[last - corner - row * size - column] += share
    rest = WHOLE
    for n in range(size * size):
        if n != middle:
            weights[n] = (2 * POINT * weights[n] + size) // (2 * size)
            rest -= weights[n]
    weights[middle] = rest


@kernel
def line_window(record: Any, scratch: Any) -> Any:
    """Return side and weights of the window of the line; the weights are in scratch."""
    size = int(record["size"])
    weights = window_weights(size, scratch)
    fill_line(float(record["angle"]), size, weights)
    return size, weights


@register
class MotionBlur(BlurOp):
    """Blur along a line."""

    size_range: Annotated[WholeRange, OddSpan(1, 63), "side of the window, in pixels"] = (3, 7)
    degrees: Annotated[Range, DEGREES, "direction, counter-clockwise from the right"] = (0.0, 180.0)

    examples = ({"p": 0.9}, {"size_range": (1, 31), "degrees": (-90, 270), "p": 0.5})
    picture = {"size_range": (15, 15), "degrees": (30, 30)}
    record = np.dtype([("angle", "f8"), SIZE, APPLY])
    kernels = {"image": weighted_levels(line_window)}
    floats = {"image": weighted_floats(line_window)}
    wide = through_floats(floats["image"])
    draw = staticmethod(_draw)

    def scratch(self, state: State) -> int:
        """Return the bytes of the weights, the image with its border and a line of sums."""
        return weighted_bytes(state, self.size_range[1])


motion_blur = function(MotionBlur)
