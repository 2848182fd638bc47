"""Cut a window of fixed size at a random place, out of image and mask padded with fills.

Draw 0 places the top, draw 1 the left, each uniformly: if the padded image is at least as large
as the window, the window is inside of the padded image; if it is smaller, the padded image
is inside of the window. The record's `top` and `left` are in pixels of the image without padding.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.cropped import (
    WINDOW_KERNELS,
    Cropped,
    random_place,
    window_forward,
)
from stoker.ops.bases.fills import FILL_FIELDS
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Value
from stoker.ops.contract.reading import box_inside
from stoker.ops.contract.registry import register


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["top"] = random_place(key, 0, height, int(params["height"]), int(params["padding_y"]))
    record["left"] = random_place(key, 1, width, int(params["width"]), int(params["padding_x"]))


@kernel
def _reads(params: Any, record: Any, height: int, width: int) -> Any:
    size = int(params["height"]), int(params["width"])
    return box_inside(int(record["top"]), int(record["left"]), size, height, width)


@register
@dataclass(frozen=True)
class RandomCrop(Cropped):
    """Cut a window at a random place.

    Attributes:
        size: output side, or (height, width), in pixels.
        padding: pixels of fill on every side, or (above and below, left and right).
        fill: gray level outside of the image, or one for each channel.
        mask_fill: class outside of the mask.
    """

    padding: int | tuple[int, int] = 0
    fill: float | tuple[float, ...] = 0
    mask_fill: int = 0

    name: ClassVar[str] = "random_crop"
    examples = (
        {"size": (20, 30), "padding": 4, "fill": 114, "mask_fill": 255},
        {"size": 33, "padding": (0, 9)},
    )
    picture = {"size": 120}
    varied = {"size": ((16, 24),), "padding": (0, 4)}
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [
            ("height", "i4"),
            ("width", "i4"),
            ("padding_y", "i4"),
            ("padding_x", "i4"),
            *FILL_FIELDS,
        ]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype([("top", "i4"), ("left", "i4")])
    kernels: ClassVar[dict[str, Kernel]] = WINDOW_KERNELS
    draw = staticmethod(_draw)
    reads = staticmethod(_reads)
    forward = staticmethod(window_forward)
    affine: ClassVar[bool] = True

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            padding=checks.pair(self.name, "padding", self.padding, 0),
            **self.checked(),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        padding = checks.pair(self.name, "padding", self.padding, 0)
        return np.array((*self.sides(), *padding, *self.fills()), self.parameters)


def random_crop(
    *values: Value,
    size: int | tuple[int, int],
    padding: int | tuple[int, int] = 0,
    fill: float | tuple[float, ...] = 0,
    mask_fill: int = 0,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Cut a window at a random place out of values of a pipeline; see `RandomCrop`."""
    return RandomCrop(size, padding, fill, mask_fill)(*values, stream=stream, relative=relative)
