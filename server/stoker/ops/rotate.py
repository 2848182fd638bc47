"""Rotate about the centre by a random angle, image and mask alike; the size stays.

Draw 0 is the angle in degrees, uniform, counter-clockwise as torchvision's RandomRotation. What
turns out of the image is lost, what turns into it is filled.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.ops import checks
from stoker.ops.affinity import forward, inverse_steps, spread
from stoker.ops.contract import Kernel, Op, State, Value
from stoker.ops.cut import fill_levels, require_fill
from stoker.ops.registry import register
from stoker.ops.rules import require_pixels
from stoker.ops.warp import FILTERS, plain_warp_affine, warp_affine
from stoker.rng.draws import uniform_range
from stoker.rng.jit import kernel

MOST: float = 360.0


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["angle"] = uniform_range(key, 0, params["low"], params["high"])


@kernel
def _decision(record: Any) -> Any:
    return -float(record["angle"]), 0.0, 0.0, 1.0, 0.0, 0.0


@kernel
def _steps(record: Any, height: int, width: int) -> Any:
    return inverse_steps(_decision(record), height, width)


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    steps = _steps(record, src.shape[0], src.shape[1])
    warp_affine(src, dst, steps, int(params["interpolation"]), params["fill"])


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    whole = src.reshape((src.shape[0], src.shape[1], 1))
    out = dst.reshape((dst.shape[0], dst.shape[1], 1))
    warp_affine(whole, out, _steps(record, src.shape[0], src.shape[1]), 0, params["mask_fill"])


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    steps, fill = _steps(record, *src.shape[:2]), np.asarray(params["fill"])
    plain_warp_affine(src, dst, steps, int(params["interpolation"]), fill)


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_warp_affine(src, dst, _steps(record, *src.shape), 0, np.asarray(params["mask_fill"]))


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    return forward(_decision(record), sizes[0], sizes[1])


@register
@dataclass(frozen=True)
class Rotate(Op):
    """Rotate about the centre.

    Attributes:
        degrees: range of the angle, counter-clockwise: (low, high), or d for (-d, d).
        interpolation: of images: nearest or bilinear. Masks are always nearest.
        fill: grey level outside of the image, or one for each channel.
        mask_fill: class outside of the mask.
    """

    degrees: float | tuple[float, float]
    interpolation: str = "bilinear"
    fill: int | tuple[int, ...] = 0
    mask_fill: int = 0

    name: ClassVar[str] = "rotate"
    random: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [
            ("low", "f8"),
            ("high", "f8"),
            ("mask_fill", "i4", (1,)),
            ("fill", "u1", (4,)),
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

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            degrees=spread(self.name, "degrees", self.degrees, MOST),
            interpolation=checks.choice(self.name, "interpolation", self.interpolation, FILTERS),
            fill=checks.levels(self.name, "fill", self.fill),
            mask_fill=checks.integer(self.name, "mask_fill", self.mask_fill, -(2**31), 2**31 - 1),
        )

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        degrees = spread(self.name, "degrees", self.degrees, MOST)
        fill = fill_levels(checks.levels(self.name, "fill", self.fill))
        code = FILTERS.index(self.interpolation)
        return np.array((*degrees, (self.mask_fill,), fill, code), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states as they are."""
        self.require_kinds(states)
        require_pixels(self.name, states)
        fill = checks.levels(self.name, "fill", self.fill)
        require_fill(self.name, states, fill, self.mask_fill)
        return states, 0


def rotate(
    *values: Value,
    degrees: float | tuple[float, float],
    interpolation: str = "bilinear",
    fill: int | tuple[int, ...] = 0,
    mask_fill: int = 0,
    stream: str | None = None,
) -> Any:
    """Rotate values of a pipeline about the centre; see `Rotate`."""
    return Rotate(degrees, interpolation, fill, mask_fill)(*values, stream=stream)
