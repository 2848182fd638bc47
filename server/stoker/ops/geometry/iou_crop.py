"""Crop so that enough of some object remains: the random crop of SSD, chosen by the boxes.

As torchvision's RandomIoUCrop: an option, the minimum overlap, is drawn; then crops of random
height and width, with an allowed aspect ratio, are tried until one contains the center of a box
whose intersection over union with the crop is at least the option. If `trials` crops fail, another
option is drawn. Boxes whose centers are outside of the crop are removed, the others are clipped.
An option of 1 or more keeps the image unchanged. Source: Liu et al., "SSD: Single Shot MultiBox
Detector", 2016, 2.2; there too one overlapping box is enough.

Differences: after 8 options without a crop the image is unchanged (torchvision loops forever);
positions are integers, all equally likely, including the last one; an image without boxes gets a
crop at any position (torchvision loops forever).

Draws: r is option r, of 8; trial t of option r reads 8 + 4 * (1024 r + t) and the three after it:
height and width as fractions of the image's, uniform, sides rounded down; top and left, integers.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.box_cut import BoxCut, cut_forward
from stoker.ops.contract.kernel_forms import ItemsKernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import MAX_SIDE, is_number, refuse
from stoker.ops.contract.parameters import Interval, Number, OwnRule, Whole
from stoker.ops.contract.registry import register
from stoker.ops.kernels.points import lower, move_boxes, upper
from stoker.rng.draws import integers, uniform_range
from stoker.rng.maths import floor

ROUNDS: Final = 8
MAX_TRIALS: Final = 1024
MAX_OPTIONS: Final = 16
OPTIONS: Final = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


@kernel
def centered(at: Any, n: int, left: float, top: float, right: float, bottom: float) -> bool:
    """Whether the center of box n is inside of a crop, not on its edge."""
    x = (np.float64(at[n, 0]) + np.float64(at[n, 2])) / 2.0
    y = (np.float64(at[n, 1]) + np.float64(at[n, 3])) / 2.0
    return bool(left < x < right and top < y < bottom)


@kernel
def overlap(at: Any, n: int, left: float, top: float, right: float, bottom: float) -> float:
    """Return the intersection over union of box n and a crop that has an area."""
    x0, y0 = np.float64(at[n, 0]), np.float64(at[n, 1])
    x1, y1 = np.float64(at[n, 2]), np.float64(at[n, 3])
    wide = upper(lower(x1, right) - upper(x0, left), 0.0)
    tall = upper(lower(y1, bottom) - upper(y0, top), 0.0)
    both = wide * tall
    either = (x1 - x0) * (y1 - y0) + (right - left) * (bottom - top) - both
    return both / either if either > 0.0 else 0.0


@kernel
def holds(at: Any, left: float, top: float, right: float, bottom: float, option: float) -> bool:
    """Whether a crop is good: it overlaps enough with a box whose center it contains."""
    for n in range(at.shape[0]):
        inside = centered(at, n, left, top, right, bottom)
        if inside and overlap(at, n, left, top, right, bottom) >= option:
            return True
    return bool(at.shape[0] == 0)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any, items: Any) -> None:
    at = items.view(np.float32)
    record["top"] = 0
    record["left"] = 0
    record["height"] = height
    record["width"] = width
    record["applied"] = 0
    for attempt in range(ROUNDS):
        option = params["options"][int(integers(key, attempt, int(params["count"])))]
        record["option"] = option
        if option >= 1.0:
            return
        for trial in range(int(params["trials"])):
            k = ROUNDS + 4 * (MAX_TRIALS * attempt + trial)
            h = floor(height * uniform_range(key, k, params["min_scale"], params["max_scale"]))
            w = floor(width * uniform_range(key, k + 1, params["min_scale"], params["max_scale"]))
            if h < 1 or w < 1 or not params["min_aspect"] <= w / h <= params["max_aspect"]:
                continue
            top = int(integers(key, k + 2, height - h + 1))
            left = int(integers(key, k + 3, width - w + 1))
            if holds(at, float(left), float(top), float(left + w), float(top + h), option):
                record["top"] = top
                record["left"] = left
                record["height"] = h
                record["width"] = w
                record["applied"] = 1
                return


@kernel
def _run_boxes(src: Any, dst: Any, params: Any, record: Any, sizes: Any, visible: int) -> int:
    at, numbers = src.view(np.float32), cut_forward(params, record, sizes)
    left, top = float(record["left"]), float(record["top"])
    right, bottom = left + float(record["width"]), top + float(record["height"])
    kept = 0
    for n in range(src.shape[0]):
        if record["applied"] == 0 or centered(at, n, left, top, right, bottom):
            kept += move_boxes(src[n : n + 1], dst[kept:], numbers, sizes, visible)
    return kept


def _options(op: str, value: Any) -> tuple[float, ...]:
    options = tuple(value) if isinstance(value, tuple | list) else ()
    good = all(is_number(option) and 0 <= option <= 2 for option in options)
    if not good or not 1 <= len(options) <= MAX_OPTIONS:
        raise refuse(op, "options", f"1 to {MAX_OPTIONS} numbers from 0 to 2", value)
    return tuple(float(option) for option in options)


def _padded(options: tuple[float, ...]) -> tuple[Any, ...]:
    return (*options, *[0.0] * (MAX_OPTIONS - len(options))), len(options)


SCALE: Final = Number(0.0, 1.0)
ASPECT: Final = Number(0.0, MAX_SIDE)
OVERLAPS: Final = OwnRule(
    _options,
    f"1 to {MAX_OPTIONS} numbers from 0 to 2; from 1 on the image is unchanged",
    (("options", "f8", (MAX_OPTIONS,)), ("count", "i4")),
    _padded,
)


@register
class IouCrop(BoxCut):
    """Crop so that enough of some object remains; decided from the boxes of the call."""

    min_scale: Annotated[float, SCALE, "least height and width over the image's"] = 0.3
    max_scale: Annotated[float, SCALE, "greatest height and width over the image's"] = 1.0
    min_aspect: Annotated[float, ASPECT, "least width / height"] = 0.5
    max_aspect: Annotated[float, ASPECT, "greatest width / height"] = 2.0
    options: Annotated[tuple[float, ...], OVERLAPS, "overlaps: one is drawn"] = OPTIONS
    trials: Annotated[int, Whole(1, MAX_TRIALS), "number of crops to try for an option"] = 40

    examples = ({}, {"options": (0.2,), "min_scale": 0.1, "max_aspect": 4, "trials": 9})
    picture = {"options": (0.5,)}
    record = np.dtype(
        [
            ("top", "i4"),
            ("left", "i4"),
            ("height", "i4"),
            ("width", "i4"),
            ("option", "f8"),
            ("applied", "u1"),
        ]
    )
    items = {"boxes": ItemsKernel(_run_boxes, visible=True)}
    draw = staticmethod(_draw)

    def check(self) -> None:
        """Check the parameters, and both ranges."""
        scale, aspect = (self.min_scale, self.max_scale), (self.min_aspect, self.max_aspect)
        Interval(0.0, 1.0).check(self.name, "(min_scale, max_scale)", scale)
        most = float(MAX_SIDE)
        Interval(0.0, most).check(self.name, "(min_aspect, max_aspect)", aspect)
        super().check()


iou_crop = function(IouCrop)
