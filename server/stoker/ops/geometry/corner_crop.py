"""Cut a corner out of image and mask; if the image is too small, the rest is filled.

No randomness. `stoker.ops.five_crop` uses it.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.cropped import Cropped
from stoker.ops.bases.fills import FILL_FIELDS
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Value
from stoker.ops.contract.reading import box_inside
from stoker.ops.contract.registry import register
from stoker.ops.kernels.cut import cut, plain_cut
from stoker.ops.kernels.points import scaled

CORNERS: Final = ("top_left", "top_right", "bottom_left", "bottom_right")


@kernel
def _place(params: Any, height: int, width: int) -> Any:
    """Return the first row and column of the window in an image of that size."""
    top = (height - int(params["height"])) * int(params["bottom"])
    return top, (width - int(params["width"])) * int(params["right"])


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left = _place(params, src.shape[0], src.shape[1])
    cut(src, dst, top, left, params["fill"])


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left = _place(params, src.shape[0], src.shape[1])
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    cut(whole, dst.reshape((dst.shape[0], dst.shape[1], 1)), top, left, params["mask_fill"])


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left = _place(params, src.shape[0], src.shape[1])
    plain_cut(src, dst, top, left, np.asarray(params["fill"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left = _place(params, src.shape[0], src.shape[1])
    plain_cut(src, dst, top, left, np.asarray(params["mask_fill"]))


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    top, left = _place(params, sizes[0], sizes[1])
    return scaled(1.0, 1.0, -left, -top)


@kernel
def _reads(params: Any, record: Any, height: int, width: int) -> Any:
    top, left = _place(params, height, width)
    size = int(params["height"]), int(params["width"])
    return box_inside(top, left, size, height, width)


@register
@dataclass(frozen=True)
class CornerCrop(Cropped):
    """Cut a corner out.

    Attributes:
        size: output side, or (height, width), in pixels.
        corner: top_left, top_right, bottom_left or bottom_right.
        fill: gray level outside of an image that is too small, or one for each channel.
        mask_fill: class outside of a mask that is too small.
    """

    corner: str = "top_left"
    fill: float | tuple[float, ...] = 0
    mask_fill: int = 0

    name: ClassVar[str] = "corner_crop"
    examples = (
        {"size": 24, "corner": "bottom_right", "fill": (7, 8, 9, 10), "mask_fill": 200},
        {"size": (9, 40), "corner": "top_right"},
    )
    picture = {"size": 120, "corner": "bottom_right"}
    varied = {"size": ((16, 16), (16, 20)), "corner": CORNERS}
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("height", "i4"), ("width", "i4"), ("bottom", "u1"), ("right", "u1"), *FILL_FIELDS]
    )
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    reads = staticmethod(_reads)
    forward = staticmethod(_forward)
    affine: ClassVar[bool] = True

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            corner=checks.choice(self.name, "corner", self.corner, CORNERS),
            **self.checked(),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        sides = CORNERS.index(self.corner)
        return np.array((*self.sides(), sides // 2, sides % 2, *self.fills()), self.parameters)


def corner_crop(
    *values: Value,
    size: int | tuple[int, int],
    corner: str = "top_left",
    fill: float | tuple[float, ...] = 0,
    mask_fill: int = 0,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Cut a corner out of values of a pipeline; see `CornerCrop`."""
    return CornerCrop(size, corner, fill, mask_fill)(*values, stream=stream, relative=relative)
