"""The parts that crops to a fixed size share: `size`, states of that size, and the drawn window.

A drawn window has the record fields `top` and `left`, in pixels of the image; it may extend beyond
the image, where `fill` and `mask_fill` are written.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import Fills
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.parameters import SidePair, Sides, both_sides
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State
from stoker.ops.kernels.cut import cut, plain_cut
from stoker.ops.kernels.points import scaled
from stoker.rng.draws import integers


@kernel
def asked_size(params: Any, record: Any, height: int, width: int) -> tuple[int, int]:
    """Return the size of the window, for any image size."""
    return int(params["height"]), int(params["width"])


@kernel
def random_place(key: Any, k: int, size_in: int, size_out: int, padding: int) -> int:
    """Draw where a window begins along an axis, uniformly.

    A window no longer than the padded image is inside of it; a longer one contains all of it.

    Args:
        key: key of the row.
        k: number of the draw.
        size_in: side of the image.
        size_out: side of the window.
        padding: pixels of fill before and after the image.
    """
    spare = size_in + 2 * padding - size_out
    return min(spare, 0) - padding + int(integers(key, k, abs(spare) + 1))


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
def window_forward(params: Any, record: Any, sizes: Any) -> Any:
    """Return the map of points: `Op.forward`."""
    return scaled(1.0, 1.0, -int(record["left"]), -int(record["top"]))


WINDOW_KERNELS: Final[dict[str, Kernel]] = {
    "image": Kernel(_run_image, _plain_image),
    "mask": Kernel(_run_mask, _plain_mask),
}


@dataclass(frozen=True)
class Cropped(Fills):
    """Base of crops to a fixed size."""

    size: Annotated[Sides, SidePair(1), "side of the result, or (height, width), in pixels"]

    image_dtypes = ANY_DTYPE
    out_size = staticmethod(asked_size)
    affine = True

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the output size."""
        self.require_pixels(states)
        height, width = size = both_sides(self.size)
        return tuple(state.resized(height, width, size) for state in states), 0
