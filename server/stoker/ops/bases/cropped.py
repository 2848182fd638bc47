"""The parts that crops to a fixed size share: `size`, states of that size, and the drawn window.

A drawn window has the record fields `top` and `left`, in pixels of the image; it may extend beyond
the image, where `fill` and `mask_fill` are written.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from stoker.jit import kernel
from stoker.ops.bases.cut_window import window_kernels
from stoker.ops.bases.fills import Fills
from stoker.ops.contract.parameters import SidePair, Sides, both_sides
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State
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
def drawn_place(params: Any, record: Any, before: Any, after: Any) -> Any:
    """Return the place that the record has."""
    return int(record["top"]), int(record["left"])


WINDOW_KERNELS: Final = window_kernels(drawn_place)


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
