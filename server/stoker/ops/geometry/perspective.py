"""Move the four corners inwards at random, like a change of viewpoint; the size is kept.

Image and mask move alike. Draw 0 decides with probability p; draws 1 to 8 are how far each corner
moves, right and down or left and up, in integer pixels up to
floor(distortion_scale * (side - 1) / 2). The record has the new corners: (x, y) of the top left,
top right, bottom right and bottom left pixel. Pixels outside of them are filled. An image of one
row or one column does not change.

A distortion_scale up to 0.6 keeps the four corners convex; above 2/3 an image could fold.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import Fill, Fills, MaskFill
from stoker.ops.bases.rotated import Filter
from stoker.ops.bases.warped import warp_kernels
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Number, Probability
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import carried
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.points import scaled
from stoker.ops.kernels.projected import projection_bytes, warp_projection
from stoker.ops.kernels.projection import forward_projection, plain_projection, projection
from stoker.ops.kernels.runs import copy_run
from stoker.ops.kernels.warp import plain_sample
from stoker.rng.draws import bernoulli, integers
from stoker.rng.maths import floor

MOST: Final = 0.6


@kernel
def _most(params: Any, side: int) -> int:
    """Return the maximum distance that a corner moves along a side."""
    return floor(params["distortion_scale"] * (side - 1) * 0.5)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    most_x, most_y = _most(params, width), _most(params, height)
    applied = bernoulli(key, 0, params["p"]) and height > 1 and width > 1
    record["applied"] = 1 if applied else 0
    for corner in range(4):
        move_x = int(integers(key, 1 + 2 * corner, most_x + 1)) if applied else 0
        move_y = int(integers(key, 2 + 2 * corner, most_y + 1)) if applied else 0
        right, low = corner in (1, 2), corner in (2, 3)
        record["corners"][2 * corner] = width - 1 - move_x if right else move_x
        record["corners"][2 * corner + 1] = height - 1 - move_y if low else move_y


@kernel
def _corner(at: Any, far: bool, before: int, after: int, most: int) -> Any:
    """Scale a corner's position: it moves by the same fraction of its side, at most as drawn."""
    move = min(carried(before - 1 - at if far else at, before, after), most)
    return after - 1 - move if far else move


@kernel
def _rescale(params: Any, record: Any, sizes: Any) -> bool:
    height, width, tall, wide = sizes
    record["applied"] = 1 if record["applied"] and tall > 1 and wide > 1 else 0
    for corner in range(4):
        right, low = corner in (1, 2), corner in (2, 3)
        x, y = 2 * corner, 2 * corner + 1
        at_x, at_y = np.int64(record["corners"][x]), np.int64(record["corners"][y])
        record["corners"][x] = _corner(at_x, right, width, wide, _most(params, wide))
        record["corners"][y] = _corner(at_y, low, height, tall, _most(params, tall))
    return True


@kernel
def _warp(src: Any, dst: Any, params: Any, record: Any, how: Any, scratch: Any) -> None:
    if record["applied"]:
        numbers = projection(record["corners"], src.shape[0], src.shape[1])
        warp_projection(src, dst, numbers, how[0], how[1], scratch)
    else:
        copy_run(src.reshape(src.size), 0, dst.reshape(dst.size), 0, src.size)


def _plain(src: Any, dst: Any, params: Any, record: Any, how: Any) -> None:
    if record["applied"]:
        plain_sample(src, dst, plain_projection(record["corners"], *src.shape[:2]), *how)
    else:
        dst[...] = src


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    if record["applied"]:
        return forward_projection(record["corners"], sizes[0], sizes[1])
    return scaled(1.0, 1.0, 0.0, 0.0)


@register
class Perspective(Fills, Op):
    """Move the four corners inwards."""

    distortion_scale: Annotated[
        float,
        Number(0.0, MOST),
        "maximum distance of a corner, as a fraction of half of a side; up to 0.6",
    ] = 0.5
    p: Probability = 0.5
    interpolation: Filter = "bilinear"
    fill: Fill = 0
    mask_fill: MaskFill = 0

    image_dtypes = LEVELS_FLOATS
    examples = (
        {"p": 0.7, "fill": 114, "mask_fill": 7},
        {"distortion_scale": 0.6, "p": 0.9, "interpolation": "nearest"},
    )
    varied = {}
    version = 2
    random = True
    record = np.dtype([("applied", "u1"), ("corners", "i4", (8,))])
    kernels = warp_kernels(_warp, _plain)
    draw = staticmethod(_draw)
    forward = staticmethod(_forward)
    rescale = staticmethod(_rescale)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        self.require_pixels(states)
        return states, max(projection_bytes(state.bound[1]) for state in states)


perspective = function(Perspective)
