"""Fill a grid of squares, with probability p, in image and mask: GridMask (Chen et al., 2020).

Draws: 0 applied if uniform < p; 1 the grid's unit, an integer in its range; 2 and 3 the shift of
the grid up and left, integers below the unit. A square is
floor(unit * ratio + 0.5) pixels wide, at least 1 and less than the unit; pixel (y, x) is filled
if both (y + top) mod unit and (x + left) mod unit are below that. The grid is not rotated.
"""

from typing import Annotated, Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.filled_parts import FillsParts, filling_kernels
from stoker.ops.bases.fills import Fill, MaskFill
from stoker.ops.bases.pixelwise import APPLY
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import MAX_SIDE
from stoker.ops.contract.parameters import Number, Probability, WholeRange, WholeSpan
from stoker.ops.contract.registry import register
from stoker.ops.kernels.cut import fill_run
from stoker.rng.draws import bernoulli, integers
from stoker.rng.maths import floor


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    low, high = int(params["unit_low"]), int(params["unit_high"])
    unit = low + int(integers(key, 1, high - low + 1))
    record["unit"] = unit
    record["hole"] = min(max(floor(unit * params["ratio"] + 0.5), 1), unit - 1)
    record["top"] = int(integers(key, 2, unit))
    record["left"] = int(integers(key, 3, unit))


@kernel
def _fill(image: Any, shape: Any, record: Any, value: Any) -> None:
    """Fill the squares row by row, run by run."""
    height, width, channels = shape
    unit: Any = np.int64(record["unit"])
    hole: Any = np.int64(record["hole"])
    top: Any = np.int64(record["top"])
    left: Any = np.int64(record["left"])
    for y in range(height):
        if (y + top) % unit < hole:
            for x in range(-left, width, unit):
                start = max(x, 0)
                count = max(min(x + hole, width) - start, 0)
                fill_run(image, (y * width + start) * channels, count, channels, value)


def _where(shape: tuple[int, ...], record: Any) -> np.ndarray:
    rows = (np.arange(shape[0]) + record["top"]) % record["unit"] < record["hole"]
    columns = (np.arange(shape[1]) + record["left"]) % record["unit"] < record["hole"]
    squares: np.ndarray = rows[:, None] & columns
    return squares


@register
class GridMask(FillsParts):
    """Fill a grid of squares."""

    unit_range: Annotated[
        WholeRange,
        WholeSpan(2, MAX_SIDE),
        "distance from square to square, in pixels (integers)",
    ] = (32, 96)
    ratio: Annotated[float, Number(0.0, 1.0), "side of a square, as a fraction of the unit"] = 0.5
    fill: Fill = 0
    mask_fill: MaskFill = 0
    p: Probability = 0.5

    examples = (
        {"fill": 114, "mask_fill": 200, "p": 0.9},
        {"unit_range": (5, 20), "ratio": 0.3, "p": 0.5},
    )
    picture = {"unit_range": (40, 40)}
    record = np.dtype([("unit", "i4"), ("hole", "i4"), ("top", "i4"), ("left", "i4"), APPLY])
    kernels = filling_kernels(_fill, _where)
    draw = staticmethod(_draw)
    rescale: ClassVar[None] = None


grid_mask = function(GridMask)
