"""Resize by a random factor of the size that fits: torchvision's ScaleJitter.

With factor 1 the image is the largest of its ratio that fits into `size`. Draw 0 is the factor s,
uniform in `scale`; both sides are multiplied by s times the smaller of size / side, and rounded
down; at least 1. Followed by a random crop to `size`, which fills what is too small, this is the
large-scale jitter of Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method",
2021, 3.1.

Difference: torchvision 0.21 compares the height with the second number of its target size, and the
width with the first; here `size` is (height, width).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fit import FIT_FLOATS, FIT_KERNELS, fit_scratch
from stoker.ops.bases.resizing import INTERPOLATIONS
from stoker.ops.bases.wide_resize import SIGNED_RESIZE, WIDE_RESIZE
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State
from stoker.ops.kernels.points import fill_frame
from stoker.rng.draws import uniform_range
from stoker.rng.maths import floor


@kernel
def jittered(height: int, width: int, factor: float, params: Any) -> Any:
    """Return height and width for a factor, never above those that the state is declared with."""
    fit = min(int(params["height"]) / height, int(params["width"]) / width) * factor
    tall = min(max(floor(height * fit), 1), int(params["most_height"]))
    wide = min(max(floor(width * fit), 1), int(params["most_width"]))
    return np.int64(tall), np.int64(wide)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    factor = uniform_range(key, 0, params["low"], params["high"])
    record["scale"] = factor
    record["height"], record["width"] = jittered(height, width, factor, params)


@kernel
def _out_size(params: Any, record: Any, height: int, width: int) -> Any:
    return np.int64(record["height"]), np.int64(record["width"])


@kernel
def _rescale(params: Any, record: Any, sizes: Any) -> bool:
    factor = float(record["scale"])
    record["height"], record["width"] = jittered(sizes[2], sizes[3], factor, params)
    return True


@register
@dataclass(frozen=True)
class ScaleJitter(Op):
    """Resize by a random factor of the size that fits.

    Attributes:
        size: the side, or (height, width), into which the image fits with factor 1, in pixels.
        scale: (low, high) of the factor.
        interpolation: filter of images: nearest, bilinear, bicubic, lanczos or area. Masks are
            always nearest.
    """

    size: int | tuple[int, int]
    scale: tuple[float, float] = (0.1, 2.0)
    interpolation: str = "bilinear"

    name: ClassVar[str] = "scale_jitter"
    image_dtypes = ANY_DTYPE
    examples = (
        {"size": 32},
        {"size": (20, 40), "scale": (0.5, 1.5), "interpolation": "bicubic"},
        {"size": 24, "scale": (0.2, 3.0), "interpolation": "nearest"},
    )
    picture = {"size": 160, "scale": (0.5, 0.5)}
    varied = {"size": ((30, 24),), "scale": ((0.6, 1.3),)}
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [
            ("height", "i4"), ("width", "i4"), ("most_height", "i4"), ("most_width", "i4"),
            ("low", "f8"), ("high", "f8"), ("interpolation", "u1"),
        ]
    )  # fmt: skip
    record: ClassVar[np.dtype[Any]] = np.dtype([("scale", "f8"), ("height", "i4"), ("width", "i4")])
    kernels: ClassVar[dict[str, Kernel]] = FIT_KERNELS
    floats: ClassVar[dict[str, Kernel]] = FIT_FLOATS
    wide: ClassVar[dict[str, Kernel]] = WIDE_RESIZE
    signed: ClassVar[dict[str, Kernel]] = SIGNED_RESIZE
    draw = staticmethod(_draw)
    out_size = staticmethod(_out_size)
    forward = staticmethod(fill_frame)
    affine: ClassVar[bool] = True
    rescale = staticmethod(_rescale)

    def check(self) -> None:
        """Check the parameters."""
        size = checks.pair(self.name, "size", self.size, 1)
        high = checks.MAX_SIDE / max(size)
        self.settle(
            size=size,
            scale=checks.interval(self.name, "scale", self.scale, 0.0, high),
            interpolation=checks.choice(
                self.name, "interpolation", self.interpolation, INTERPOLATIONS
            ),
        )

    def most(self) -> tuple[int, int]:
        """Return the largest height and width of a result."""
        tall, wide = checks.pair(self.name, "size", self.size, 1)
        return max(floor(tall * self.scale[1]), 1), max(floor(wide * self.scale[1]), 1)

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        size = checks.pair(self.name, "size", self.size, 1)
        code = INTERPOLATIONS.index(self.interpolation)
        return np.array((*size, *self.most(), *self.scale, code), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of bounded sizes."""
        self.require_pixels(states)
        most = self.most()
        need = [fit_scratch(state, most, self.interpolation) for state in states]
        return tuple(s.resized(None, None, most) for s in states), max(need, default=0)


def scale_jitter(
    *values: Value,
    size: int | tuple[int, int],
    scale: tuple[float, float] = (0.1, 2.0),
    interpolation: str = "bilinear",
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Resize values of a pipeline by a random factor; see `ScaleJitter`."""
    return ScaleJitter(size, scale, interpolation)(*values, stream=stream, relative=relative)
