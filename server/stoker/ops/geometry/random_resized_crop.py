"""Crop a random part of random area and aspect ratio, and resize it to a fixed size.

The crop is chosen as torchvision's `RandomResizedCrop.get_params` does: up to ten attempts, each
with an area uniform in `scale` times the image's and a ratio log-uniform in `ratio`; the first crop
that fits is placed uniformly; else the largest central crop with a ratio in `ratio`. Attempt a
reads draws 4a (area), 4a + 1 (ratio), 4a + 2 (top), 4a + 3 (left), so attempts are independent of
each other. Sides are rounded to floor(x + 0.5). The crop is resized as in `stoker.ops.resize`.
"""

from typing import Annotated, Any, Final

from stoker.jit import kernel
from stoker.ops.bases.decode_keyword import decoded
from stoker.ops.bases.resized import ResizedBox
from stoker.ops.bases.resizing import Interpolation
from stoker.ops.contract.op_functions import FunctionCall, calls
from stoker.ops.contract.parameter_limits import ATTEMPTS, LOWEST_RATIO, MAX_SIDE
from stoker.ops.contract.parameters import Interval, Range, SidePair, Sides, both_sides
from stoker.ops.contract.registry import register
from stoker.rng.draws import integers, log_uniform, uniform_range
from stoker.rng.maths import floor, sqrt

SCALE: Final = Interval(0.0, 1.0)
RATIO: Final = Interval(LOWEST_RATIO, MAX_SIDE)


@kernel
def draw_crop(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    """Draw the box; `Op.draw`."""
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
class RandomResizedCrop(ResizedBox):
    """Crop a random part and resize it to a fixed size."""

    size: Annotated[Sides, SidePair(1), "the output side, or (height, width), in pixels"]
    scale: Annotated[Range, SCALE, "area of the crop, as a part of the image's"] = (0.08, 1.0)
    ratio: Annotated[Range, RATIO, "width / height of the crop"] = (3 / 4, 4 / 3)
    interpolation: Interpolation = "bilinear"

    examples = (
        {"size": (19, 28)},
        {"size": 24, "interpolation": "bicubic", "scale": (0.01, 0.4)},
        {"size": (41, 5), "interpolation": "nearest", "ratio": (0.2, 9)},
        {"size": (30, 21), "interpolation": "lanczos", "scale": (0.2, 1)},
        {"size": 20, "interpolation": "area"},
    )
    picture = {"size": (160, 240), "scale": (0.2, 0.4)}
    varied = {"size": ((24, 32), (40, 32)), "scale": ((0.2, 1.0),)}
    draw = staticmethod(draw_crop)

    def result_size(self) -> tuple[int, int]:
        """Return the output size."""
        return both_sides(self.size)


@calls(RandomResizedCrop)
def random_resized_crop(call: FunctionCall, decode: str = "exact") -> Any:
    """Crop a random part and resize it; `decode="scaled"` decodes it at a fraction of its size."""
    return decoded(call, decode, RandomResizedCrop)
