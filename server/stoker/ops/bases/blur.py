"""The parts that blurs with a window of drawn size share: the size, and an image with its border.

Draws: 0 applied if uniform < p; 1 the window's side, all odd numbers of its range equally likely. A
kernel reads the image from scratch, extended by half a window on every side, so that the loops over
pixels need no checks at the edges.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, PixelOp
from stoker.ops.contract.parameter_limits import refuse
from stoker.ops.contract.parameters import Probability, WholeRange, WholeSpan
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.extend import extend
from stoker.ops.kernels.resample import padded
from stoker.rng.draws import bernoulli, integers

SIZE: Final = ("size", "i4")


@kernel
def draw_window(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    """Decide whether the op is applied, and draw its window."""
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    low, high = int(params["size_low"]), int(params["size_high"])
    record["size"] = low + 2 * int(integers(key, 1, (high - low) // 2 + 1))


@kernel
def bordered_bytes(height: int, width: int, channels: int, radius: int) -> int:
    """Return the scratch bytes of an image with its border."""
    return padded((height + 2 * radius) * (width + 2 * radius) * channels)


@kernel
def bordered(src: Any, radius: int, reflect: int, scratch: Any) -> Any:
    """Extend an image by `radius` pixels on every side; return it flat, in `scratch`.

    Args:
        src: `(H, W, C)`, uint8 or float32.
        radius: pixels on every side.
        reflect: 1 to mirror at the outermost pixel, 0 to repeat it.
        scratch: at least `bordered_bytes` bytes, for floats four times as many.
    """
    height, width, channels = src.shape
    tall, wide = height + 2 * radius, width + 2 * radius
    image = scratch[: tall * wide * channels * src.itemsize].view(src.dtype)
    extend(src, image.reshape((tall, wide, channels)), -radius, -radius, reflect)
    return image


def plain_shifts(src: np.ndarray, size: int, mode: str) -> np.ndarray:
    """Return `(size * size, H, W, C)`: the values of the window at every pixel, with NumPy.

    `mode` is numpy.pad's: reflect or edge. If the window is longer than the image, it mirrors
    repeatedly.
    """
    radius = size // 2
    wide = np.pad(src, ((radius, radius), (radius, radius), (0, 0)), mode)  # type: ignore[call-overload]
    height, width = src.shape[:2]
    views = [wide[y : y + height, x : x + width] for y in range(size) for x in range(size)]
    return np.stack(views)


@dataclass(frozen=True)
class OddSpan(WholeSpan):
    """A range (low, high) of odd numbers."""

    def check(self, op: str, name: str, value: object) -> WholeRange:
        """Return both ends."""
        low, high = super().check(op, name, value)
        if low % 2 == 0 or high % 2 == 0:
            raise refuse(op, name, "two odd numbers", (low, high))
        return low, high

    @property
    def text(self) -> str:
        """The bounds."""
        return f"odd {super().text}"


@dataclass(frozen=True)
class BlurOp(PixelOp):
    """Base of blurs with a window of a drawn size: `size_range` is declared by the op."""

    size_range: WholeRange = (3, 7)
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    record = np.dtype([SIZE, APPLY])
    draw = staticmethod(draw_window)
    rescale = None

    def border(self, state: State) -> int:
        """Return the bytes of an image of that state with the widest border."""
        height, width, channels = state.bound
        values = channels * np.dtype(state.dtype).itemsize
        return bordered_bytes(height, width, values, self.size_range[1] // 2)
