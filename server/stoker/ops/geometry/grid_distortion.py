"""Stretch and squeeze the columns and rows of a grid at random; the size is kept.

Draws: 0 applied if uniform < p; 1 + 2i how much wider cell i becomes, 2 + 2i how much taller, both
uniform in `stretch_range`; 16 cells are drawn for any number of `cells`. Output cells have one
size; their content is 1 + stretch times as wide, scaled so that all of them together are the image:
nothing enters from outside, and nothing leaves.

A stretch counts as s = floor((1 + stretch) * 2**16 + 0.5). With n cells and W pixels, output pixel
x is in cell i = ((2x + 1) n) // 2W, at r = ((2x + 1) n) mod 2W within it; its position is
(2W (s_0 + ... + s_(i-1)) + r s_i) * 2**24 // (2 (s_0 + ... + s_(n-1))), below 2**62. Sampling:
`kernels.warp`. Boxes and keypoints move by the exact inverse; columns and rows remain columns and
rows, so a box remains a box.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.moved_items import moving_items
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin
from stoker.ops.bases.rotated import Filter
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Range, Span, Whole
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS, MAX_CHANNELS
from stoker.ops.contract.states import State
from stoker.ops.kernels.sampling_points import sample_row
from stoker.ops.kernels.warp import BITS, plain_sample
from stoker.rng.draws import bernoulli, uniform_range
from stoker.rng.maths import floor

CELLS: Final = 16
STRETCH: Final = Span(-0.9, 0.9)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    for i in range(CELLS):
        record["across"][i] = uniform_range(
            key, 1 + 2 * i, params["stretch_low"], params["stretch_high"]
        )
        record["down"][i] = uniform_range(
            key, 2 + 2 * i, params["stretch_low"], params["stretch_high"]
        )


@kernel
def stretched(stretch: float) -> int:
    """Return 1 + stretch in units of 2**-16."""
    return floor((1.0 + stretch) * 65536.0 + 0.5)


@kernel
def fill_places(size: int, cells: int, stretches: Any, places: Any) -> None:
    """Write the positions of all pixels of an axis: `(size,) int64`."""
    whole = 0
    for i in range(cells):
        whole += stretched(stretches[i])
    before, cell = 0, 0
    for x in range(size):
        at = (2 * x + 1) * cells
        while cell < at // (2 * size):
            before += stretched(stretches[cell])
            cell += 1
        part = at % (2 * size) * stretched(stretches[cell])
        places[x] = ((2 * size * before + part) << BITS) // (2 * whole)


@kernel
def _warp(src: Any, dst: Any, params: Any, record: Any, bilinear: int, scratch: Any) -> None:
    height, width, _ = src.shape
    cells = int(params["cells"])
    across = scratch[: 8 * width].view(np.int64)
    down = scratch[8 * width : 16 * width].view(np.int64)
    rows = scratch[16 * width : 16 * width + 8 * height].view(np.int64)
    fill_places(width, cells, record["across"], across)
    fill_places(height, cells, record["down"], rows)
    for y in range(height):
        down[:] = rows[y]
        # Every position is inside of the source: the value passed as fill is never read.
        sample_row(src, dst, y, (across, down), bilinear, rows)


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if record["apply"]:
        _warp(src, dst, params, record, int(params["interpolation"]), scratch)
    else:
        begin(src, dst)


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if record["apply"]:
        whole = src.reshape((src.shape[0], src.shape[1], 1))
        out = dst.reshape((dst.shape[0], dst.shape[1], 1))
        _warp(whole, out, params, record, 0, scratch)
    else:
        begin(src, dst)


@kernel
def unstretched(at: float, size: int, cells: int, stretches: Any) -> float:
    """Return the new place of a source point along an axis: the inverse of the positions.

    Points before 0 or after `size` move as the first or the last cell does.
    """
    whole = 0
    for i in range(cells):
        whole += stretched(stretches[i])
    place, before, cell = at * whole, 0, 0
    while cell < cells - 1 and place >= float((before + stretched(stretches[cell])) * size):
        before += stretched(stretches[cell])
        cell += 1
    part = (place - float(before * size)) / float(stretched(stretches[cell]) * size)
    return (cell + part) * size / cells


@kernel
def _point(x: float, y: float, params: Any, record: Any, sizes: Any) -> Any:
    """Return the new place of a point, rounded to float32."""
    cells = int(params["cells"])
    right = np.float32(unstretched(x, sizes[1], cells, record["across"]))
    down = np.float32(unstretched(y, sizes[0], cells, record["down"]))
    return np.float64(right), np.float64(down)


@kernel
def _box(sides: Any, params: Any, record: Any, sizes: Any) -> Any:
    left, top = _point(sides[0], sides[1], params, record, sizes)
    right, bottom = _point(sides[2], sides[3], params, record, sizes)
    return left, top, right, bottom


def plain_places(size: int, cells: int, stretches: np.ndarray) -> np.ndarray:
    """Return the positions of all pixels of an axis, with NumPy; the reference of `fill_places`."""
    sizes = np.array([stretched(float(stretch)) for stretch in stretches[:cells]])
    cell, part = np.divmod((2 * np.arange(size) + 1) * cells, 2 * size)
    before = np.cumsum(sizes) - sizes
    places: np.ndarray = ((2 * size * before[cell] + part * sizes[cell]) << BITS) // (
        2 * sizes.sum()
    )
    return places


def _plain(src: Any, dst: Any, params: Any, record: Any, bilinear: int) -> None:
    dst[...] = src
    if record["apply"]:
        cells = int(params["cells"])
        across = plain_places(src.shape[1], cells, np.asarray(record["across"]))
        down = plain_places(src.shape[0], cells, np.asarray(record["down"]))
        at = np.broadcast_arrays(across, down[:, None])
        plain_sample(src, dst, (*at, True), bilinear, np.zeros(MAX_CHANNELS, np.uint8))


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _plain(src, dst, params, record, int(params["interpolation"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _plain(src, dst, params, record, 0)


@register
class GridDistortion(PixelOp):
    """Stretch and squeeze the columns and rows of a grid."""

    cells: Annotated[int, Whole(2, CELLS), "columns and rows of the grid"] = 5
    stretch_range: Annotated[Range, STRETCH, "growth of a cell, as a part of it"] = (-0.3, 0.3)
    interpolation: Filter = "bilinear"
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    examples = (
        {"p": 0.9},
        {"cells": 16, "stretch_range": (-0.9, 0.9), "interpolation": "nearest", "p": 0.5},
    )
    picture = {"stretch_range": (-0.6, 0.6)}
    varied = {"cells": (2, 5)}
    record = np.dtype([("across", "f8", (CELLS,)), ("down", "f8", (CELLS,)), APPLY])
    kernels = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    items = moving_items(_box, _point)
    draw = staticmethod(_draw)

    def scratch(self, state: State) -> int:
        """Return the bytes of positions: of a row twice, and of a column."""
        height, width = state.bound[:2]
        return 16 * width + 8 * height


grid_distortion = function(GridDistortion)
