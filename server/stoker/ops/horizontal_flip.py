"""Mirror left and right with probability p, image and mask alike.

Draw 0 decides: flipped if uniform < p. The record's `flip` is 0 or 1.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.ops import checks
from stoker.ops.contract import Kernel, Op, State, Value
from stoker.ops.points import scaled
from stoker.ops.registry import register
from stoker.ops.rules import require_pixels
from stoker.rng.draws import bernoulli
from stoker.rng.jit import kernel

K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["flip"] = 1 if bernoulli(key, 0, params["p"]) else 0


@kernel
def mirror(src: Any, dst: Any, height: int, width: int, channels: int) -> None:
    """Mirror the rows of a flat image into another."""
    if channels == 1:
        mirror1(src, dst, height, width)
    elif channels == 3:
        mirror3(src, dst, height, width)
    else:
        for y in range(height):
            for x in range(width):
                a = np.uint64((y * width + x) * channels)
                b = np.uint64((y * width + width - 1 - x) * channels)
                for c in range(np.uint64(channels)):
                    dst[b + c] = src[a + c]


@kernel
def mirror1(src: Any, dst: Any, height: int, width: int) -> None:
    """Mirror rows of single values."""
    for y in range(height):
        a, b = np.uint64(y * width), np.uint64(y * width + width - 1)
        for x in range(np.uint64(width)):
            dst[a + x] = src[b - x]


@kernel
def mirror3(src: Any, dst: Any, height: int, width: int) -> None:
    """Mirror rows of three channels."""
    for y in range(height):
        a, b = np.uint64(3 * y * width), np.uint64(3 * (y * width + width - 1))
        for x in range(np.uint64(width)):
            k = K3 * x
            dst[a + k] = src[b - k]
            dst[a + k + K1] = src[b - k + K1]
            dst[a + k + K2] = src[b - k + K2]


@kernel
def copy(src: Any, dst: Any) -> None:
    """Copy a flat array."""
    for i in range(np.uint64(src.size)):
        dst[i] = src[i]


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    height, width, channels = src.shape
    if record["flip"]:
        mirror(src.reshape(src.size), dst.reshape(dst.size), height, width, channels)
    else:
        copy(src.reshape(src.size), dst.reshape(dst.size))


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    height, width = src.shape
    if record["flip"]:
        mirror1(src.reshape(src.size), dst.reshape(dst.size), height, width)
    else:
        copy(src.reshape(src.size), dst.reshape(dst.size))


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src[:, ::-1] if record["flip"] else src


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    if record["flip"]:
        return scaled(-1.0, 1.0, sizes[1], 0.0)
    return scaled(1.0, 1.0, 0.0, 0.0)


@register
@dataclass(frozen=True)
class HorizontalFlip(Op):
    """Mirror left and right.

    Attributes:
        p: probability.
    """

    p: float = 0.5

    name: ClassVar[str] = "horizontal_flip"
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype([("p", "f8")])
    record: ClassVar[np.dtype[Any]] = np.dtype([("flip", "u1")])
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_image, _plain),
        "mask": Kernel(_run_mask, _plain),
    }
    draw = staticmethod(_draw)
    forward = staticmethod(_forward)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(p=checks.number(self.name, "p", self.p, 0.0, 1.0))

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((self.p,), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states as they are."""
        self.require_kinds(states)
        require_pixels(self.name, states)
        return states, 0


def horizontal_flip(*values: Value, p: float = 0.5, stream: str | None = None) -> Any:
    """Mirror values of a pipeline with probability p; see `HorizontalFlip`."""
    return HorizontalFlip(p)(*values, stream=stream)
