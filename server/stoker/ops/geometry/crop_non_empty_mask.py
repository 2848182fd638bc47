"""Cut a window of fixed size that contains a marked pixel of the mask, if the mask has one.

As Albumentations' CropNonEmptyMaskIfExists. The first mask of the call decides. Its marked pixels
are those whose class is not in `ignore`. One of them is chosen, all equally likely, then a place of
the window that contains it, all equally likely; the window is then moved into the image, which
keeps the pixel inside. Without marked pixels the window is that of `random_crop`. Along an axis
where the image is shorter than the window, the window contains the whole image at a random place.

Draws, all integers: 0 the marked pixel, counted row by row; 1 and 2 its row and column in the
window; 3 top and 4 left as of `random_crop` without padding, for a mask without marked pixels and
for axes where the image is shorter than the window. Draws 0 to 2 are read only if there is a marked
pixel. The record's `row` and `column` are those of the marked pixel in the image, or -1.
"""

from typing import Annotated, Any, Final, cast

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.cropped import (
    WINDOW_KERNELS,
    Cropped,
    drawn_place,
    random_place,
)
from stoker.ops.bases.cut_window import window_map
from stoker.ops.bases.fills import Fill, MaskFill
from stoker.ops.bases.marked import count_marked, find_marked
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import ClassNumbers
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State, StateError
from stoker.rng.draws import integers

MAX_IGNORED: Final = 32
IGNORED: Final = ClassNumbers(MAX_IGNORED)
"""Maximum number of ignored classes."""


@kernel
def around(key: Any, k: int, pixel: int, size_in: int, size_out: int) -> int:
    """Draw where a window that contains a pixel begins, on an axis where the image is as long."""
    start = pixel - int(integers(key, k, size_out))
    return min(max(start, 0), size_in - size_out)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any, items: Any) -> None:
    tall, wide = int(params["height"]), int(params["width"])
    ignore, count = params["ignore"], int(params["ignore_count"])
    top, left = random_place(key, 3, height, tall, 0), random_place(key, 4, width, wide, 0)
    row, column = -1, -1
    marked = int(count_marked(items, ignore, count))
    if marked > 0:
        at = int(find_marked(items, ignore, count, int(integers(key, 0, marked))))
        row, column = at // width, at % width
        if height >= tall:
            top = around(key, 1, row, height, tall)
        if width >= wide:
            left = around(key, 2, column, width, wide)
    record["top"] = top
    record["left"] = left
    record["row"] = row
    record["column"] = column


@register
class CropNonEmptyMask(Cropped):
    """Cut a window that contains a marked pixel of the call's first mask, if it has one."""

    ignore: Annotated[
        int | tuple[int, ...], ClassNumbers(MAX_IGNORED), "classes that do not count"
    ] = 0
    fill: Fill = 0
    mask_fill: MaskFill = 0

    examples = (
        {"size": (24, 18), "fill": (7, 8, 9, 10), "mask_fill": 200},
        {"size": (9, 70), "ignore": (0, 1, 255)},
    )
    picture = {"size": 80}
    random = True
    record = np.dtype([("top", "i4"), ("left", "i4"), ("row", "i4"), ("column", "i4")])
    kernels = WINDOW_KERNELS
    draws_from = "mask"
    draw = staticmethod(_draw)
    forward = window_map(drawn_place)

    def require_looked_at(self, state: State) -> None:
        """Refuse ignored classes that a mask cannot hold: they would never match.

        Raises:
            StateError: names them and the mask.
        """
        if state.dtype not in ("uint8", "uint16", "int32"):
            return  # `declare` refuses the mask itself
        limits = np.iinfo(state.dtype)
        foreign = [
            value
            for value in cast(tuple[int, ...], self.ignore)
            if not limits.min <= value <= limits.max
        ]
        if foreign:
            raise StateError(
                f"expected ignore to be classes from {limits.min} to {limits.max} "
                f"for {state}, got {foreign[0]}: no pixel can have it. Give the number that is "
                "stored",
                op=self.name,
            )


crop_non_empty_mask = function(CropNonEmptyMask)
