"""Crop a random part of random area and aspect ratio, and resize it to a fixed size.

The crop is chosen as torchvision's `RandomResizedCrop.get_params` does: up to ten attempts, each
with an area uniform in `scale` times the image's and a ratio log-uniform in `ratio`; the first crop
that fits is placed uniformly; else the largest central crop with a ratio in `ratio`. Attempt a
reads draws 4a (area), 4a + 1 (ratio), 4a + 2 (top), 4a + 3 (left), so attempts are independent of
each other. Sides are rounded to floor(x + 0.5). The crop is resized as in `stoker.ops.resize`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.box_resize import (
    BOX_FLOATS,
    BOX_KERNELS,
    BOX_RECORD,
    box_forward,
    box_out_size,
    box_reads,
)
from stoker.ops.bases.resizing import INTERPOLATIONS, resize_scratch
from stoker.ops.bases.wide_resize import SIGNED_BOX, WIDE_BOX
from stoker.ops.contract import checks
from stoker.ops.contract.checks import ATTEMPTS, LOWEST_RATIO
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import rescale_box
from stoker.ops.contract.rules import require_pixels
from stoker.ops.contract.states import State
from stoker.rng.draws import integers, log_uniform, uniform_range
from stoker.rng.maths import floor, sqrt


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    low, high = params["ratio_low"], params["ratio_high"]
    area = float(height * width)
    for attempt in range(ATTEMPTS):
        k = 4 * attempt
        target = area * uniform_range(key, k, params["scale_low"], params["scale_high"])
        ratio = log_uniform(key, k + 1, low, high)
        w = floor(sqrt(target * ratio) + 0.5)
        h = floor(sqrt(target / ratio) + 0.5)
        if 0 < w <= width and 0 < h <= height:
            record["top"] = int(integers(key, k + 2, height - h + 1))
            record["left"] = int(integers(key, k + 3, width - w + 1))
            record["height"] = h
            record["width"] = w
            return
    _central(low, high, height, width, record)


@kernel
def _central(low: float, high: float, height: int, width: int, record: Any) -> None:
    h, w = height, width
    if width / height < low:
        h = min(max(floor(width / low + 0.5), 1), height)
    elif width / height > high:
        w = min(max(floor(height * high + 0.5), 1), width)
    record["top"] = (height - h) // 2
    record["left"] = (width - w) // 2
    record["height"] = h
    record["width"] = w


@register
@dataclass(frozen=True)
class RandomResizedCrop(Op):
    """Crop a random part and resize it to a fixed size.

    Attributes:
        size: output side, or (height, width), in pixels.
        scale: (low, high) of the crop's area, as fractions of the image's area.
        ratio: (low, high) of the crop's width / height.
        interpolation: filter of images: nearest, bilinear, bicubic, lanczos or area. Masks are
            always nearest.
    """

    size: int | tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: str = "bilinear"

    name: ClassVar[str] = "random_resized_crop"
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [
            ("scale_low", "f8"),
            ("scale_high", "f8"),
            ("ratio_low", "f8"),
            ("ratio_high", "f8"),
            ("height", "i4"),
            ("width", "i4"),
            ("interpolation", "u1"),
        ]
    )
    record: ClassVar[np.dtype[Any]] = BOX_RECORD
    kernels: ClassVar[dict[str, Kernel]] = BOX_KERNELS
    floats: ClassVar[dict[str, Kernel]] = BOX_FLOATS
    wide: ClassVar[dict[str, Kernel]] = WIDE_BOX
    signed: ClassVar[dict[str, Kernel]] = SIGNED_BOX
    draw = staticmethod(_draw)
    out_size = staticmethod(box_out_size)
    reads = staticmethod(box_reads)
    rescale = staticmethod(rescale_box)
    forward = staticmethod(box_forward)
    affine: ClassVar[bool] = True

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            size=checks.pair(self.name, "size", self.size, 1),
            scale=checks.interval(self.name, "scale", self.scale, 0.0, 1.0),
            ratio=checks.interval(self.name, "ratio", self.ratio, LOWEST_RATIO, checks.MAX_SIDE),
            interpolation=checks.choice(
                self.name, "interpolation", self.interpolation, INTERPOLATIONS
            ),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        size = checks.pair(self.name, "size", self.size, 1)
        code = INTERPOLATIONS.index(self.interpolation)
        return np.array((*self.scale, *self.ratio, *size, code), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of the output size."""
        self.require_kinds(states)
        require_pixels(self.name, states, floats=True, wide=True, signed=True)
        size = checks.pair(self.name, "size", self.size, 1)
        need = resize_scratch(states, size, self.interpolation)
        return tuple(state.resized(*size, size) for state in states), need


def random_resized_crop(
    *values: Value,
    size: int | tuple[int, int],
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    interpolation: str = "bilinear",
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Crop a random part of values of a pipeline and resize it; see `RandomResizedCrop`."""
    return RandomResizedCrop(size, scale, ratio, interpolation)(
        *values, stream=stream, relative=relative
    )
