"""Distort as a lens does, barrel or pincushion, with probability p; the size is kept.

The camera model of Albumentations' OpticalDistortion and of OpenCV (k1 = k2 = k, focal lengths of
the image's own sides). With u and v the offset of an output place from the center, as parts of
width and height, and q = u u + v v, its source is at (1 + k q + k q q) times that offset. Above 0
k makes a barrel: all of the image is shown, and filled around. Below 0 it makes a pincushion, whose
edges are lost. The center is the middle of the image; Albumentations counts W / 2 as the index of a
pixel, half a pixel further.

Draws: 0 applied if uniform < p; 1 k, uniform in its range. Sampling: `kernels.warp`.

Points move by the inverse, 16 steps of Newton's method for the factor from 1, which converge from
one side. Beyond the radius of the corners, the model continues as a straight line, so that every
point has a place. A box becomes the smallest upright box around its curved outline: along an edge
the offset is greatest or smallest at an end, or where the edge crosses an axis of the image.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import Fill, Fills, MaskFill
from stoker.ops.bases.moved_items import moving_items
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin
from stoker.ops.bases.rotated import Filter
from stoker.ops.bases.warped import warp_kernels
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Range, Span
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.points import lower, upper
from stoker.ops.kernels.sampling_points import sample_row
from stoker.ops.kernels.warp import BITS, UNIT, plain_sample
from stoker.rng.draws import bernoulli, uniform_range
from stoker.rng.maths import sqrt

LOWEST: Final = -0.3
"""Below -4/11 the corners would fold."""
HIGHEST: Final = 1.0
STEPS: Final = 16
CORNER: Final = 0.5
"""q of the corners, for any ratio of sides."""


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["k"] = uniform_range(key, 1, params["distort_low"], params["distort_high"])


@kernel
def fill_row(y: int, k: float, height: int, width: int, places: Any) -> None:
    """Write the positions of a row of output pixels; see `kernels.sampling_points`."""
    across, down = places
    middle_x, middle_y = width * 0.5, height * 0.5
    rise = y + 0.5 - middle_y
    v = rise / height
    for x in range(width):
        run = x + 0.5 - middle_x
        u = run / width
        q = u * u + v * v
        factor = 1.0 + k * q + k * (q * q)
        fx, fy = middle_x + run * factor, middle_y + rise * factor
        seen = 0.0 <= fx < width and 0.0 <= fy < height
        px, py = int((fx if seen else 0.0) * UNIT + 0.5), int((fy if seen else 0.0) * UNIT + 0.5)
        # A position that rounding takes to the far edge is outside.
        seen = seen and px < width << BITS and py < height << BITS
        across[x] = px if seen else -1
        down[x] = py if seen else 0


@kernel
def _warp(src: Any, dst: Any, params: Any, record: Any, how: Any, scratch: Any) -> None:
    if not record["apply"]:
        begin(src, dst)
        return
    height, width, _ = src.shape
    across = scratch[: 8 * width].view(np.int64)
    places = (across, scratch[8 * width : 16 * width].view(np.int64))
    for y in range(height):
        fill_row(y, float(record["k"]), height, width, places)
        sample_row(src, dst, y, places, how[0], how[1])


@kernel
def factor_of(k: float, q: float) -> float:
    """Return by what the offset of a source place is multiplied to get that of its output place.

    Args:
        k: the coefficient.
        q: the square of the offset, in parts of the sides.
    """
    edge = sqrt(CORNER)
    reached = edge * (1.0 + k * CORNER + k * CORNER * CORNER)
    if q > reached * reached:
        radius = sqrt(q)
        slope = 1.0 + 3.0 * k * CORNER + 5.0 * k * CORNER * CORNER
        return (edge + (radius - reached) / slope) / radius
    s = 1.0
    for _ in range(STEPS):
        part = s * s * q
        over = s * (1.0 + k * part + k * part * part) - 1.0
        s -= over / (1.0 + 3.0 * k * part + 5.0 * k * part * part)
    return s


@kernel
def moved(x: float, y: float, k: float, height: int, width: int) -> Any:
    """Return the output place (x, y) of a source place, in pixels."""
    run, rise = x - width * 0.5, y - height * 0.5
    u, v = run / width, rise / height
    s = factor_of(k, u * u + v * v)
    return width * 0.5 + run * s, height * 0.5 + rise * s


@kernel
def moved_box(box: Any, k: float, height: int, width: int) -> Any:
    """Return the smallest upright box around a moved box: (x0, y0, x1, y1), as `box`."""
    x0, y0, x1, y1 = box
    middle_x = lower(upper(x0, width * 0.5), x1)
    middle_y = lower(upper(y0, height * 0.5), y1)
    left, top = moved(x0, y0, k, height, width)
    right, bottom = moved(x1, y1, k, height, width)
    for y in (y0, middle_y, y1):
        left = lower(left, moved(x0, y, k, height, width)[0])
        right = upper(right, moved(x1, y, k, height, width)[0])
    for x in (x0, middle_x, x1):
        top = lower(top, moved(x, y0, k, height, width)[1])
        bottom = upper(bottom, moved(x, y1, k, height, width)[1])
    return left, top, right, bottom


@kernel
def _box(sides: Any, params: Any, record: Any, sizes: Any) -> Any:
    return moved_box(sides, float(record["k"]), sizes[0], sizes[1])


@kernel
def _point(x: float, y: float, params: Any, record: Any, sizes: Any) -> Any:
    return moved(x, y, float(record["k"]), sizes[0], sizes[1])


def plain_places(size: tuple[int, int], k: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positions and which of them are inside, with NumPy; the reference of `fill_row`."""
    height, width = size
    run = np.arange(width) + 0.5 - width * 0.5
    rise = (np.arange(height) + 0.5 - height * 0.5)[:, None]
    u, v = run / width, rise / height
    q = u * u + v * v
    factor = 1.0 + k * q + k * (q * q)
    fx, fy = width * 0.5 + run * factor, height * 0.5 + rise * factor
    seen = (fx >= 0.0) & (fx < width) & (fy >= 0.0) & (fy < height)
    px, py = ((np.where(seen, at, 0.0) * UNIT + 0.5).astype(np.int64) for at in (fx, fy))
    return px, py, seen


def _plain(src: Any, dst: Any, params: Any, record: Any, how: Any) -> None:
    dst[...] = src
    if record["apply"]:
        plain_sample(src, dst, plain_places(src.shape[:2], float(record["k"])), *how)


@register
class OpticalDistortion(Fills, PixelOp):
    """Distort as a lens does."""

    distort_range: Annotated[
        Range,
        Span(LOWEST, HIGHEST),
        "coefficient k, from -0.3 to 1. Above 0 is a barrel, below 0 a pincushion",
    ] = (-0.05, 0.05)
    interpolation: Filter = "bilinear"
    fill: Fill = 0
    mask_fill: MaskFill = 0
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    examples = (
        {"distort_range": (-0.3, 1), "fill": 114, "mask_fill": 200, "p": 0.9},
        {"interpolation": "nearest", "p": 0.5},
    )
    picture = {"distort_range": (0.7, 0.7)}
    varied = {"distort_range": ((-0.2, 0.3),)}
    record = np.dtype([("k", "f8"), APPLY])
    kernels = warp_kernels(_warp, _plain)
    items = moving_items(_box, _point)
    draw = staticmethod(_draw)

    def scratch(self, state: State) -> int:
        """Return the bytes of a row of positions."""
        return 16 * state.bound[1]


optical_distortion = function(OpticalDistortion)
