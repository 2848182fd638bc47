"""Move every pixel a little, smoothly and at random, image and mask alike; the size is kept.

Draws: 0 applied if uniform < p; 1 the amount, uniform in its range; 2 words 0 and 1: a Philox key,
the record's `seed`. Displacement: `kernels.splines`; sampling: `kernels.warp`. Pixels from outside
of the image are filled. The image never folds: an amount is at most 0.48 spacings.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import FILL_FIELDS, Fills
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.resample import padded
from stoker.ops.kernels.sampling_points import sample_row
from stoker.ops.kernels.splines import (
    blend_points,
    displace_row,
    fill_points,
    fill_weights,
    plain_displacement,
    points_on,
    spline_bytes,
)
from stoker.ops.kernels.warp import FILTERS, plain_sample
from stoker.rng.draws import bernoulli, uniform_range, word

SMALLEST: Final = 8
LARGEST: Final = 1024
STEEPEST: Final = 0.48
"""Amount in spacings above which an image could fold."""


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["amount"] = uniform_range(key, 1, params["low"], params["high"])
    record["seed"][0] = word(key, 2, 0)
    record["seed"][1] = word(key, 2, 1)


@kernel
def _warp(src: Any, dst: Any, params: Any, record: Any, how: Any, scratch: Any) -> None:
    """Warp `(H, W, C)`; `how` is (1 for bilinear or 0 for nearest, fill)."""
    height, width, _ = src.shape
    bilinear, fill = how
    spacing = int(params["spacing"])
    columns = points_on(width, spacing)
    count = 16 * points_on(height, spacing) * columns
    points = scratch[:count].view(np.int64)
    at = padded(count)
    weights = scratch[at : at + 32 * spacing].view(np.int64)
    at += padded(32 * spacing)
    line = scratch[at : at + 16 * columns].view(np.int64)
    at += padded(16 * columns)
    across = scratch[at : at + 8 * width].view(np.int64)
    places = (across, scratch[at + 8 * width : at + 16 * width].view(np.int64))
    fill_points(points, columns, record["seed"], record["amount"])
    fill_weights(weights, spacing)
    for y in range(height):
        blend_points(points, columns, y, spacing, weights, line)
        displace_row(line, y, spacing, weights, (height, width), places)
        sample_row(src, dst, y, places, bilinear, fill)


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if record["apply"]:
        how = (int(params["interpolation"]), params["fill"])
        _warp(src, dst, params, record, how, scratch)
    else:
        begin(src, dst)


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if record["apply"]:
        whole = src.reshape((src.shape[0], src.shape[1], 1))
        out = dst.reshape((dst.shape[0], dst.shape[1], 1))
        _warp(whole, out, params, record, (0, params["mask_fill"]), scratch)
    else:
        begin(src, dst)


def _plain(src: Any, dst: Any, params: Any, record: Any, bilinear: int, fill: Any) -> None:
    dst[...] = src
    if record["apply"]:
        seed = (int(record["seed"][0]), int(record["seed"][1]))
        amount, spacing = float(record["amount"]), int(params["spacing"])
        at = plain_displacement(src.shape[:2], spacing, seed, amount)
        plain_sample(src, dst, (*at, True), bilinear, np.asarray(fill))


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _plain(src, dst, params, record, int(params["interpolation"]), params["fill"])


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _plain(src, dst, params, record, 0, params["mask_fill"])


@register
@dataclass(frozen=True)
class Elastic(Fills, PixelOp):
    """Move every pixel a little, smoothly and at random.

    Attributes:
        amount_range: (low, high) of the maximum distance that a pixel moves along each axis, in
            pixels; at most 0.48 spacings.
        spacing: pixels from one random point to the next, from 8 to 1024: larger is smoother.
        interpolation: of images: nearest or bilinear. Masks are always nearest.
        fill: gray level outside of the image, or one for each channel.
        mask_fill: class outside of the mask.
        p: probability.
    """

    amount_range: tuple[float, float] = (2.0, 12.0)
    spacing: int = 32
    interpolation: str = "bilinear"
    fill: float | tuple[float, ...] = 0
    mask_fill: int = 0
    p: float = 0.5

    name: ClassVar[str] = "elastic"
    image_dtypes = LEVELS_FLOATS
    moves_pixels = True
    examples = (
        {"fill": 114, "mask_fill": 200, "p": 0.9},
        {"amount_range": (0, 3), "spacing": 8, "interpolation": "nearest", "p": 0.5},
    )
    picture = {"amount_range": (12, 12)}
    varied = {"amount_range": ((1, 3.5),), "spacing": (8,)}
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [
            ("low", "f8"),
            ("high", "f8"),
            ("spacing", "i4"),
            *FILL_FIELDS,
            ("interpolation", "u1"),
            ("p", "f8"),
        ]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype([("seed", "u8", (2,)), ("amount", "f8"), APPLY])
    units: ClassVar[dict[str, str]] = {"amount": "px"}
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_image, _plain_image),
        "mask": Kernel(_run_mask, _plain_mask),
    }
    draw = staticmethod(_draw)
    rescale: ClassVar[None] = None

    def check(self) -> None:
        """Check the parameters."""
        spacing = checks.integer(self.name, "spacing", self.spacing, SMALLEST, LARGEST)
        most = STEEPEST * spacing
        self.settle(
            spacing=spacing,
            amount_range=checks.span(self.name, "amount_range", self.amount_range, 0.0, most),
            interpolation=checks.choice(self.name, "interpolation", self.interpolation, FILTERS),
            **self.checked_fills(),
        )
        self.check_p()

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        code = FILTERS.index(self.interpolation)
        values = (*self.amount_range, self.spacing, *self.fills(), code, self.p)
        return np.array(values, self.parameters)

    def scratch(self, state: State) -> int:
        """Return the bytes of points, weights and a row of moves and positions."""
        height, width = state.bound[:2]
        return spline_bytes(height, width, self.spacing) + 16 * width

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        declared = super().declare(states)
        self.require_fills(states)
        return declared


def elastic(
    *values: Value,
    amount_range: tuple[float, float] = (2.0, 12.0),
    spacing: int = 32,
    interpolation: str = "bilinear",
    fill: float | tuple[float, ...] = 0,
    mask_fill: int = 0,
    p: float = 0.5,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Move every pixel of values of a pipeline a little; see `Elastic`."""
    op = Elastic(amount_range, spacing, interpolation, fill, mask_fill, p)
    return op(*values, stream=stream, relative=relative)
