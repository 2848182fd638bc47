"""Rotate about the center by a random angle, image and mask alike; the size is kept.

Draw 0 is the angle in degrees, uniform, counter-clockwise as in torchvision's RandomRotation.
Pixels that leave the image are lost, pixels from outside are filled.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import FILL_FIELDS, Fills
from stoker.ops.contract import checks
from stoker.ops.contract.checks import spread
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import require_ratio
from stoker.ops.contract.rules import require_pixels
from stoker.ops.contract.states import State
from stoker.ops.kernels.affinity import (
    forward,
    move_image,
    move_mask,
    plain_move_image,
    plain_move_mask,
)
from stoker.ops.kernels.warp import FILTERS
from stoker.rng.draws import uniform_range

MOST: float = 360.0


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["angle"] = uniform_range(key, 0, params["low"], params["high"])


@kernel
def _decision(record: Any) -> Any:
    return -float(record["angle"]), 0.0, 0.0, 1.0, 0.0, 0.0


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    move_image(src, dst, _decision(record), params)


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    move_mask(src, dst, _decision(record), params)


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_move_image(src, dst, _decision(record), params)


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_move_mask(src, dst, _decision(record), params)


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    return forward(_decision(record), sizes[0], sizes[1])


@register
@dataclass(frozen=True)
class Rotate(Fills, Op):
    """Rotate about the center.

    Attributes:
        degrees: range of the angle, counter-clockwise: (low, high), or d for (-d, d).
        interpolation: of images: nearest or bilinear. Masks are always nearest.
        fill: gray level outside of the image, or one for each channel.
        mask_fill: class outside of the mask.
    """

    degrees: float | tuple[float, float]
    interpolation: str = "bilinear"
    fill: float | tuple[float, ...] = 0
    mask_fill: int = 0

    name: ClassVar[str] = "rotate"
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [
            ("low", "f8"),
            ("high", "f8"),
            *FILL_FIELDS,
            ("interpolation", "u1"),
        ]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype([("angle", "f8")])
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    draw = staticmethod(_draw)
    forward = staticmethod(_forward)
    rescale = staticmethod(require_ratio)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            degrees=spread(self.name, "degrees", self.degrees, MOST),
            interpolation=checks.choice(self.name, "interpolation", self.interpolation, FILTERS),
            **self.checked_fills(),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        degrees = spread(self.name, "degrees", self.degrees, MOST)
        code = FILTERS.index(self.interpolation)
        return np.array((*degrees, *self.fills(), code), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        self.require_kinds(states)
        require_pixels(self.name, states, floats=True)
        self.require_fills(states)
        return states, 0


def rotate(
    *values: Value,
    degrees: float | tuple[float, float],
    interpolation: str = "bilinear",
    fill: float | tuple[float, ...] = 0,
    mask_fill: int = 0,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Rotate values of a pipeline about the center; see `Rotate`."""
    return Rotate(degrees, interpolation, fill, mask_fill)(
        *values, stream=stream, relative=relative
    )
