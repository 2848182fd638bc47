"""Put image and mask into a frame of a fixed size, unscaled; the rest is filled. No randomness.

So values of different sizes can be in one batch. An image that may be larger than the frame is a
build error; it is never cropped.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import FILL_FIELDS, Fills
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import ANY_DTYPE, refuse
from stoker.ops.contract.states import State
from stoker.ops.kernels.cut import cut, plain_cut
from stoker.ops.kernels.points import scaled

PLACES: Final = ("top_left", "center")


@kernel
def _before(size_in: int, size_out: int, params: Any) -> int:
    return (size_out - size_in) // 2 if params["centered"] else 0


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top = -_before(src.shape[0], dst.shape[0], params)
    left = -_before(src.shape[1], dst.shape[1], params)
    cut(src, dst, top, left, params["fill"])


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top = -_before(src.shape[0], dst.shape[0], params)
    left = -_before(src.shape[1], dst.shape[1], params)
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    cut(whole, dst.reshape((dst.shape[0], dst.shape[1], 1)), top, left, params["mask_fill"])


def _plain(src: np.ndarray, dst: np.ndarray, params: Any, fill: np.ndarray) -> None:
    top, left = (-_before(a, b, params) for a, b in zip(src.shape[:2], dst.shape[:2], strict=True))
    plain_cut(src, dst, top, left, fill)


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _plain(src, dst, params, np.asarray(params["fill"]))


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _plain(src, dst, params, np.asarray(params["mask_fill"]))


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    return int(params["height"]), int(params["width"])


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    height, width, tall, wide = sizes
    return scaled(1.0, 1.0, _before(width, wide, params), _before(height, tall, params))


@register
@dataclass(frozen=True)
class PadToSize(Fills, Op):
    """Put the image into a frame of a fixed size.

    Attributes:
        size: side of the frame, or (height, width), in pixels.
        place: position of the image: top_left or center (an odd pixel of fill is below or right).
        fill: gray level of the rest, or one for each channel.
        mask_fill: class of the rest of a mask.
    """

    size: int | tuple[int, int]
    place: str = "top_left"
    fill: float | tuple[float, ...] = 0
    mask_fill: int = 0

    name: ClassVar[str] = "pad_to_size"
    image_dtypes = ANY_DTYPE
    examples = (
        {"size": (1000, 300), "fill": 114, "mask_fill": 200},
        {"size": (999, 301), "place": "center"},
    )
    picture = {"size": (200, 300), "fill": 114}
    varied = {"size": (60,), "place": ("top_left", "center")}
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("height", "i4"), ("width", "i4"), ("centered", "u1"), *FILL_FIELDS]
    )
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    out_size = staticmethod(_out_size)
    forward = staticmethod(_forward)
    affine: ClassVar[bool] = True

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            size=checks.pair(self.name, "size", self.size, 1),
            place=checks.choice(self.name, "place", self.place, PLACES),
            **self.checked_fills(),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        size = checks.pair(self.name, "size", self.size, 1)
        return np.array((*size, self.place == "center", *self.fills()), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the frame's size.

        Raises:
            StateError: an image may be larger than the frame, besides `Op.declare`'s reasons.
        """
        self.require_pixels(states)
        self.require_fills(states)
        size = checks.pair(self.name, "size", self.size, 1)
        for state in states:
            if state.bound[0] > size[0] or state.bound[1] > size[1]:
                remedy = "Resize or crop before it, or make the frame larger"
                raise refuse(self.name, f"sides up to {size[0]}x{size[1]}", state, remedy)
        return tuple(state.resized(*size, size) for state in states), 0


def pad_to_size(
    *values: Value,
    size: int | tuple[int, int],
    place: str = "top_left",
    fill: float | tuple[float, ...] = 0,
    mask_fill: int = 0,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Put values of a pipeline into a frame of a fixed size; see `PadToSize`."""
    return PadToSize(size, place, fill, mask_fill)(*values, stream=stream, relative=relative)
