"""Cut a window of fixed size at a random place, out of image and mask padded with fills.

Draw 0 places the top, draw 1 the left, each uniformly: if the padded image is at least as large
as the window, the window is inside of the padded image; if it is smaller, the padded image
is inside of the window. The record's `top` and `left` are in pixels of the image without padding.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

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
from stoker.rng.draws import integers


@kernel
def _place(key: Any, k: int, size_in: int, size_out: int, padding: int) -> int:
    spare = size_in + 2 * padding - size_out
    return min(spare, 0) - padding + int(integers(key, k, abs(spare) + 1))


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["top"] = _place(key, 0, height, int(params["height"]), int(params["padding_y"]))
    record["left"] = _place(key, 1, width, int(params["width"]), int(params["padding_x"]))


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    cut(src, dst, int(record["top"]), int(record["left"]), params["fill"])


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    out = dst.reshape((dst.shape[0], dst.shape[1], 1))
    cut(whole, out, int(record["top"]), int(record["left"]), params["mask_fill"])


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_cut(src, dst, int(record["top"]), int(record["left"]), np.asarray(params["fill"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_cut(src, dst, int(record["top"]), int(record["left"]), np.asarray(params["mask_fill"]))


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    return scaled(1.0, 1.0, -int(record["left"]), -int(record["top"]))


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
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    draw = staticmethod(_draw)
    reads = staticmethod(_reads)
    forward = staticmethod(_forward)

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
