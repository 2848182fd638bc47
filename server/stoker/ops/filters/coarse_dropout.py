"""Fill several random boxes, with probability p, in image and mask alike: CoarseDropout.

As Albumentations' CoarseDropout with fractions (DeVries and Taylor, 2017: "Cutout"). Draws: 0
applied if uniform < p; 1 the number of boxes, an integer in its range. Box i reads draws 4i + 2
(height) and 4i + 3 (width), each uniform in its range times the image's side and rounded to
floor(x + 0.5), at least 1; and 4i + 4 (top) and 4i + 5 (left), integers at which the box is inside
the image. Boxes may overlap.
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
from stoker.ops.contract.relative import span
from stoker.ops.contract.rules import ANY_DTYPE
from stoker.ops.contract.states import State
from stoker.ops.kernels.cut import fill_rows, fill_values
from stoker.ops.kernels.points import stay
from stoker.rng.draws import bernoulli, integers, uniform_range
from stoker.rng.maths import floor

MAX_HOLES: Final = 32
"""Maximum number of boxes of one call."""


@kernel
def _side(key: Any, index: int, low: float, high: float, side: int) -> int:
    return min(max(floor(side * uniform_range(key, index, low, high) + 0.5), 1), side)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    low, high = int(params["fewest"]), int(params["most"])
    count = low + int(integers(key, 1, high - low + 1))
    record["count"] = count
    boxes = record["boxes"]
    for k in range(4 * count, 4 * MAX_HOLES):
        boxes[k] = 0
    for i in range(count):
        k = 4 * i
        h = _side(key, k + 2, params["height_low"], params["height_high"], height)
        w = _side(key, k + 3, params["width_low"], params["width_high"], width)
        boxes[k] = int(integers(key, k + 4, height - h + 1))
        boxes[k + 1] = int(integers(key, k + 5, width - w + 1))
        boxes[k + 2] = h
        boxes[k + 3] = w


@kernel
def _run_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _, width, channels = src.shape
    image = begin(src, dst)
    if record["apply"]:
        boxes = record["boxes"]
        for k in range(0, 4 * int(record["count"]), 4):
            top, left = np.int64(boxes[k]), np.int64(boxes[k + 1])
            rows, count = np.int64(boxes[k + 2]), np.int64(boxes[k + 3])
            start = (top * width + left) * channels
            fill_rows(image, (start, width * channels), rows, count, channels, params["fill"])


@kernel
def _run_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    width = src.shape[1]
    image = begin(src, dst)
    if record["apply"]:
        boxes = record["boxes"]
        for k in range(0, 4 * int(record["count"]), 4):
            top, left = np.int64(boxes[k]), np.int64(boxes[k + 1])
            rows, count = np.int64(boxes[k + 2]), np.int64(boxes[k + 3])
            fill_values(image, (top * width + left, width), rows, count, params["mask_fill"][0])


def _plain(dst: Any, record: Any, fill: Any) -> None:
    if record["apply"]:
        for top, left, rows, count in record["boxes"].reshape(-1, 4)[: record["count"]]:
            dst[top : top + rows, left : left + count] = fill


def _plain_image(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    _plain(dst, record, params["fill"][: src.shape[2]])


def _plain_mask(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    _plain(dst, record, params["mask_fill"][0])


@kernel
def _rescale(params: Any, record: Any, sizes: Any) -> bool:
    height, width, tall, wide = sizes
    boxes = record["boxes"]
    for k in range(0, 4 * int(record["count"]), 4):
        top, rows = span(np.int64(boxes[k]), np.int64(boxes[k + 2]), height, tall)
        left, count = span(np.int64(boxes[k + 1]), np.int64(boxes[k + 3]), width, wide)
        boxes[k], boxes[k + 1], boxes[k + 2], boxes[k + 3] = top, left, rows, count
    return True


@register
@dataclass(frozen=True)
class CoarseDropout(Fills, PixelOp):
    """Fill several random boxes.

    Attributes:
        holes_range: (fewest, most) boxes, 1 to 32.
        height_range: (low, high) of a box's height, as fractions of the image's height.
        width_range: (low, high) of a box's width, as fractions of the image's width.
        fill: gray level of filled pixels, or one for each channel.
        mask_fill: class number of filled pixels.
        p: probability.
    """

    holes_range: tuple[int, int] = (1, 2)
    height_range: tuple[float, float] = (0.1, 0.2)
    width_range: tuple[float, float] = (0.1, 0.2)
    fill: float | tuple[float, ...] = 0
    mask_fill: int = 0
    p: float = 0.5

    name: ClassVar[str] = "coarse_dropout"
    image_dtypes = ANY_DTYPE
    moves_pixels = False
    examples = (
        {"fill": 114, "mask_fill": 200, "p": 0.9},
        {"holes_range": (5, 32), "height_range": (0.01, 1), "width_range": (0.1, 0.1), "p": 0.5},
    )
    picture = {"holes_range": (6, 6), "fill": 127}
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [
            ("fewest", "i4"),
            ("most", "i4"),
            ("height_low", "f8"),
            ("height_high", "f8"),
            ("width_low", "f8"),
            ("width_high", "f8"),
            *FILL_FIELDS,
            ("p", "f8"),
        ]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype(
        [("count", "i4"), ("boxes", "i4", (4 * MAX_HOLES,)), APPLY]
    )
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_image, _plain_image, in_place=True),
        "mask": Kernel(_run_mask, _plain_mask, in_place=True),
    }
    draw = staticmethod(_draw)
    forward = staticmethod(stay)
    rescale = staticmethod(_rescale)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            holes_range=checks.integer_span(
                self.name, "holes_range", self.holes_range, 1, MAX_HOLES
            ),
            height_range=checks.interval(self.name, "height_range", self.height_range, 0.0, 1.0),
            width_range=checks.interval(self.name, "width_range", self.width_range, 0.0, 1.0),
            **self.checked_fills(),
        )
        self.check_p()

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        values = (*self.holes_range, *self.height_range, *self.width_range, *self.fills(), self.p)
        return np.array(values, self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        declared = super().declare(states)
        self.require_fills(states)
        return declared


def coarse_dropout(
    *values: Value,
    holes_range: tuple[int, int] = (1, 2),
    height_range: tuple[float, float] = (0.1, 0.2),
    width_range: tuple[float, float] = (0.1, 0.2),
    fill: float | tuple[float, ...] = 0,
    mask_fill: int = 0,
    p: float = 0.5,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Fill several random boxes of values of a pipeline; see `CoarseDropout`."""
    return CoarseDropout(holes_range, height_range, width_range, fill, mask_fill, p)(
        *values, stream=stream, relative=relative
    )
