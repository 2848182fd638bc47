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

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.cropped import (
    WINDOW_KERNELS,
    Cropped,
    random_place,
    window_forward,
)
from stoker.ops.bases.fills import FILL_FIELDS
from stoker.ops.bases.marked import count_marked, find_marked
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State, StateError
from stoker.rng.draws import integers

MAX_IGNORED: Final = 32
"""Maximum number of ignored classes."""


@kernel
def around(key: Any, k: int, pixel: int, size_in: int, size_out: int) -> int:
    """Draw where a window that contains a pixel begins, on an axis where the image is as long."""
    start = pixel - int(integers(key, k, size_out))
    return min(max(start, 0), size_in - size_out)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any, items: Any) -> None:
    tall, wide = int(params["height"]), int(params["width"])
    ignore, count = params["ignore"], int(params["count"])
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
@dataclass(frozen=True)
class CropNonEmptyMask(Cropped):
    """Cut a window that contains a marked pixel of the call's first mask, if it has one.

    Attributes:
        size: output side, or (height, width), in pixels.
        ignore: class number that does not count as marked, or several, at most 32; the background's
            belongs to them.
        fill: gray level outside of the image, or one for each channel.
        mask_fill: class outside of the mask.
    """

    ignore: int | tuple[int, ...] = 0
    fill: float | tuple[float, ...] = 0
    mask_fill: int = 0

    name: ClassVar[str] = "crop_non_empty_mask"
    examples = (
        {"size": (24, 18), "fill": (7, 8, 9, 10), "mask_fill": 200},
        {"size": (9, 70), "ignore": (0, 1, 255)},
    )
    picture = {"size": 80}
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [
            ("height", "i4"),
            ("width", "i4"),
            ("ignore", "i4", (MAX_IGNORED,)),
            ("count", "i4"),
            *FILL_FIELDS,
        ]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype(
        [("top", "i4"), ("left", "i4"), ("row", "i4"), ("column", "i4")]
    )
    kernels: ClassVar[dict[str, Kernel]] = WINDOW_KERNELS
    draws_from: ClassVar[str] = "mask"
    draw = staticmethod(_draw)
    forward = staticmethod(window_forward)
    affine: ClassVar[bool] = True

    def check(self) -> None:
        """Check the parameters."""
        self.settle(ignore=self.ignored(), **self.checked())

    def ignored(self) -> tuple[int, ...]:
        """Return the ignored classes, each once, in ascending order.

        Raises:
            ParameterError: they are not class numbers.
        """
        return checks.class_numbers(self.name, "ignore", self.ignore, MAX_IGNORED)

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        ignored = self.ignored()
        padded = np.zeros(MAX_IGNORED, np.int32)
        padded[: len(ignored)] = ignored
        return np.array((*self.sides(), padded, len(ignored), *self.fills()), self.parameters)

    def require_looked_at(self, state: State) -> None:
        """Refuse ignored classes that a mask cannot hold: they would never match.

        Raises:
            StateError: names them and the mask.
        """
        if state.dtype not in ("uint8", "uint16", "int32"):
            return  # `declare` refuses the mask itself
        limits = np.iinfo(state.dtype)
        foreign = [value for value in self.ignored() if not limits.min <= value <= limits.max]
        if foreign:
            raise StateError(
                f"{self.name}: expected ignore to be classes from {limits.min} to {limits.max} "
                f"for {state}, got {foreign[0]}: no pixel can have it. Give the number that is "
                "stored",
                op=self.name,
            )


def crop_non_empty_mask(
    *values: Value,
    size: int | tuple[int, int],
    ignore: int | tuple[int, ...] = 0,
    fill: float | tuple[float, ...] = 0,
    mask_fill: int = 0,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Cut a window with a marked pixel out of values of a pipeline; see `CropNonEmptyMask`."""
    return CropNonEmptyMask(size, ignore, fill, mask_fill)(
        *values, stream=stream, relative=relative
    )
