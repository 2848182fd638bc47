"""Blur with a disk of drawn radius, with probability p, as a lens out of focus: Albumentations'.

Draws: 0 applied if uniform < p; 1 the radius, an integer of its range; 2 the alias blur, uniform in
its range. The window has 2 max(radius, 8) + 1 pixels on a side. Its pixels within the radius of the
center weigh the same; a Gaussian of 3 by 3 pixels, for radii above 8 of 5 by 5, with the alias blur
as its standard deviation softens the edge. The Gaussian mirrors the window at its outermost pixels.
Weights are divided by their sum, so that a flat image stays as it is; in Albumentations the
mirrored pixels make it brighter if the radius is 8 or more.

The weights are rounded to integers with sum 2**24: floor(2**24 w + 0.5), the center takes the rest.
Sums: `bases.weighted`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin, plain_floats
from stoker.ops.bases.weighted import (
    WHOLE,
    plain_levels,
    plain_sum_floats,
    sum_floats,
    sum_levels,
    weighted_bytes,
    window_weights,
)
from stoker.ops.bases.wide_floats import through_floats
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.extend import place
from stoker.rng.draws import bernoulli, integers, uniform_range
from stoker.rng.maths import exp, floor

LEAST: Final = 8
"""Half a window is not smaller, so that small disks have room for the Gaussian."""
LARGEST: Final = 31
MOST_BLUR: Final = 10.0


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    low, high = int(params["low"]), int(params["high"])
    record["radius"] = low + int(integers(key, 1, high - low + 1))
    record["alias_blur"] = uniform_range(key, 2, params["least"], params["most"])


@kernel
def window_side(radius: int) -> int:
    """Return the side of the window of a disk."""
    return 2 * max(radius, LEAST) + 1


@kernel
def softened(x: int, y: int, radius: int, middle: float, side: float, end: float) -> float:
    """Return the share of a pixel of the window, x and y from its center, that the disk covers.

    `middle`, `side` and `end` are the Gaussian's weights 0, 1 and 2 pixels away.
    """
    half = max(radius, LEAST)
    total = 0.0
    for dy in range(-2, 3):
        for dx in range(-2, 3):
            v = place(y + dy + half, 2 * half + 1, 1) - half
            u = place(x + dx + half, 2 * half + 1, 1) - half
            if u * u + v * v <= radius * radius:
                down = middle if dy == 0 else side if abs(dy) == 1 else end
                total += down * (middle if dx == 0 else side if abs(dx) == 1 else end)
    return total


@kernel
def fill_disk(radius: int, alias_blur: float, weights: Any) -> None:
    """Write the weights of the window, `(side * side,) int64`, rows from the top."""
    scale = -0.5 / (alias_blur * alias_blur)
    one, two = exp(scale), exp(4.0 * scale) if radius > LEAST else 0.0
    whole = 1.0 + 2.0 * one + 2.0 * two
    middle, side, end = 1.0 / whole, one / whole, two / whole
    half = max(radius, LEAST)
    wide, last = 2 * half + 1, len(weights) - 1
    total = softened(0, 0, radius, middle, side, end)
    for n in range(last // 2):
        total += 2.0 * softened(n % wide - half, n // wide - half, radius, middle, side, end)
    unit, rest = 16777216.0 / total, WHOLE
    for n in range(last // 2):
        share = softened(n % wide - half, n // wide - half, radius, middle, side, end)
        weight = floor(share * unit + 0.5)
        weights[n] = weight
        weights[last - n] = weight
        rest -= 2 * weight
    weights[last // 2] = rest


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if not record["apply"]:
        begin(src, dst)
        return
    radius = int(record["radius"])
    weights = window_weights(window_side(radius), scratch)
    fill_disk(radius, record["alias_blur"], weights)
    sum_levels(src, dst, window_side(radius), weights, scratch)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if not record["apply"]:
        begin(src, dst)
        return
    radius = int(record["radius"])
    weights = window_weights(window_side(radius), scratch)
    fill_disk(radius, record["alias_blur"], weights)
    sum_floats(src, dst, window_side(radius), weights, scratch)


def plain_disk(record: Any) -> tuple[int, np.ndarray]:
    """Return side and weights of a record's window."""
    radius = int(record["radius"])
    side = window_side(radius)
    weights = np.zeros(side * side, np.int64)
    fill_disk(radius, float(record["alias_blur"]), weights)
    return side, weights


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = plain_levels(src, *plain_disk(record)) if record["apply"] else src


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    return plain_sum_floats(image, *plain_disk(record))


@register
@dataclass(frozen=True)
class Defocus(PixelOp):
    """Blur with a disk.

    Attributes:
        radius_range: (low, high) of the disk's radius, integers from 1 to 31, in pixels.
        alias_blur_range: (low, high) of the Gaussian's standard deviation, above 0 and at most 10
            pixels; it softens the edge of the disk.
        p: probability.
    """

    radius_range: tuple[int, int] = (3, 10)
    alias_blur_range: tuple[float, float] = (0.1, 0.5)
    p: float = 0.5

    name: ClassVar[str] = "defocus"
    image_dtypes = LEVELS_FLOATS
    examples = ({"p": 0.9}, {"radius_range": (1, 12), "alias_blur_range": (0.3, 2), "p": 0.5})
    picture = {"radius_range": (6, 6)}
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("low", "i4"), ("high", "i4"), ("least", "f8"), ("most", "f8"), ("p", "f8")]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype([("radius", "i4"), ("alias_blur", "f8"), APPLY])
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(_run, _plain)}
    floats: ClassVar[dict[str, Kernel]] = {"image": Kernel(_run_floats, _plain_floats)}
    wide: ClassVar[dict[str, Kernel]] = through_floats(floats["image"])
    draw = staticmethod(_draw)
    rescale: ClassVar[None] = None

    def check(self) -> None:
        """Check the parameters."""
        radii = checks.integer_span(self.name, "radius_range", self.radius_range, 1, LARGEST)
        blurs = checks.interval(
            self.name, "alias_blur_range", self.alias_blur_range, 0.0, MOST_BLUR
        )
        self.settle(radius_range=radii, alias_blur_range=blurs)
        self.check_p()

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((*self.radius_range, *self.alias_blur_range, self.p), self.parameters)

    def scratch(self, state: State) -> int:
        """Return the bytes of the weights, the image with its border and a line of sums."""
        return weighted_bytes(state, window_side(self.radius_range[1]))


def defocus(
    *values: Value,
    radius_range: tuple[int, int] = (3, 10),
    alias_blur_range: tuple[float, float] = (0.1, 0.5),
    p: float = 0.5,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Blur images of a pipeline with a disk; see `Defocus`."""
    op = Defocus(radius_range, alias_blur_range, p)
    return op(*values, stream=stream, relative=relative)
