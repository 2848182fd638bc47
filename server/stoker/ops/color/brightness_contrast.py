"""Change contrast, then brightness, with probability p: Albumentations' RandomBrightnessContrast.

Draws: 0 applied if uniform < p; 1 the brightness b and 2 the contrast c, uniform in their ranges.
A value x becomes (1 + c) x + b white, clipped to 0 to white: 255, 65535 of uint16, 1 of floats.
With `brightness_by_max=False` the mean of all values takes the place of white. Everything is
float64; levels are rounded, halves up, and Albumentations drops their fraction.

Of floats, NaN becomes 0. A contrast of 0 with a brightness of 0 neither changes nor clips.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, LEVELS, PixelOp, begin, look_up_all, plain_floats
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.float_levels import plain_unit, unit
from stoker.ops.kernels.lane_sums import EMPTY, add_lanes, plain_total, total
from stoker.rng.draws import bernoulli, uniform_range

MOST: Final = 16.0
ZERO: Final = np.float64(0)
HALF: Final = np.float64(0.5)
ONE: Final = np.float64(1)
WHITE: Final = np.float64(255)
WIDE_WHITE: Final = np.float64(65535)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["brightness"] = uniform_range(key, 1, params["dark"], params["bright"])
    record["contrast"] = uniform_range(key, 2, params["low"], params["high"])


@kernel
def line_of(params: Any, record: Any, unit_step: Any, white: Any) -> Any:
    """Return (factor, offset) of the line that values are mapped by.

    Args:
        params: of the op.
        record: of the op.
        unit_step: what a brightness of 1 adds: white, or the mean of the image; float64.
        white: greatest value; float64.
    """
    factor, offset = ONE + record["contrast"], record["brightness"] * unit_step
    if params["safe"]:
        offset = offset if offset > ZERO else ZERO
        offset = offset if offset < white else white
        if factor > ZERO:
            most = (white - offset) / white
            factor = factor if factor < most else most
        else:
            least = -offset / white
            factor = factor if factor > least else least
    return factor, offset


@kernel
def mapped(x: Any, factor: Any, offset: Any, white: Any) -> Any:
    """Return the new level of a level, rounded and clipped, as int32."""
    found = np.float64(x) * factor + offset
    found = found if found > ZERO else ZERO
    return np.int32((found if found < white else white) + HALF)


@kernel
def mean_of_levels(image: Any) -> Any:
    """Return the mean of a flat image of levels, as float64."""
    found = np.uint64(0)
    for i in range(np.uint64(image.size)):
        found += np.uint64(image[i])
    return np.float64(found) / np.float64(image.size)


@kernel
def map_wide(image: Any, factor: Any, offset: Any) -> None:
    """Map a flat image of uint16 in place."""
    for i in range(np.uint64(image.size)):
        image[i] = np.uint16(mapped(image[i], factor, offset, WIDE_WHITE))


@kernel
def map_floats(image: Any, factor: Any, offset: Any) -> None:
    """Map a flat image of floats in place."""
    for i in range(np.uint64(image.size)):
        image[i] = unit(np.float32(np.float64(image[i]) * factor + offset))


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if record["apply"]:
        source = src.reshape(src.size)
        step = WHITE if params["by_max"] else mean_of_levels(source)
        factor, offset = line_of(params, record, step, WHITE)
        for x in range(LEVELS):
            scratch[x] = mapped(x, factor, offset, WHITE)
        look_up_all(source, dst.reshape(dst.size), scratch)
    else:
        begin(src, dst)


@kernel
def _run_wide(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        step = WIDE_WHITE if params["by_max"] else mean_of_levels(image)
        factor, offset = line_of(params, record, step, WIDE_WHITE)
        map_wide(image, factor, offset)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        step = ONE
        if not params["by_max"]:
            sums = add_lanes(image, np.uint64(0), np.uint64(image.size), EMPTY)
            step = total(sums) / np.float64(image.size)
        factor, offset = line_of(params, record, step, ONE)
        if factor != ONE or offset != ZERO:
            map_floats(image, factor, offset)


def _plain_of(white: np.float64) -> Any:
    def plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        dst[...] = src
        if record["apply"]:
            step = white if params["by_max"] else np.float64(src.sum(dtype=np.uint64)) / src.size
            factor, offset = line_of(params, record, step, white)
            dst[...] = np.floor(np.clip(src * factor + offset, 0, white) + HALF)

    return plain


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    step = ONE if params["by_max"] else plain_total(image) / image.size
    factor, offset = line_of(params, record, step, ONE)
    if factor == ONE and offset == ZERO:
        return image
    return plain_unit((image.astype(np.float64) * factor + offset).astype(np.float32))


@register
@dataclass(frozen=True)
class BrightnessContrast(PixelOp):
    """Change contrast, then brightness.

    Attributes:
        brightness_limit: range of the brightness: (low, high), or d for (-d, d), from -16 to 16. 0
            changes nothing, 1 adds white.
        contrast_limit: range of the contrast, likewise. 0 changes nothing, -1 leaves nothing of the
            image, 1 doubles each value.
        brightness_by_max: whether brightness counts in white, or else in the mean of the image.
        ensure_safe_range: whether both are reduced until no value has to be clipped.
        p: probability.
    """

    brightness_limit: float | tuple[float, float] = (-0.2, 0.2)
    contrast_limit: float | tuple[float, float] = (-0.2, 0.2)
    brightness_by_max: bool = True
    ensure_safe_range: bool = False
    p: float = 0.5

    name: ClassVar[str] = "brightness_contrast"
    image_dtypes = LEVELS_FLOATS
    of_levels = True
    clips_floats = True
    examples = (
        {"p": 0.9},
        {"brightness_limit": 1, "contrast_limit": (-1, 3), "brightness_by_max": False, "p": 0.9},
        {"brightness_limit": 1, "contrast_limit": 2, "ensure_safe_range": True, "p": 0.9},
    )
    picture = {"brightness_limit": (0.1, 0.1), "contrast_limit": (0.5, 0.5)}
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [
            *((name, "f8") for name in ("dark", "bright", "low", "high")),
            ("by_max", "u1"),
            ("safe", "u1"),
            ("p", "f8"),
        ]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype([("brightness", "f8"), ("contrast", "f8"), APPLY])
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(_run, _plain_of(WHITE), in_place=True)}
    wide: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_wide, _plain_of(WIDE_WHITE), in_place=True)
    }
    floats: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_floats, _plain_floats, in_place=True)
    }
    draw = staticmethod(_draw)

    def check(self) -> None:
        """Check the parameters."""
        for name in ("brightness_limit", "contrast_limit"):
            self.settle(**{name: checks.spread(self.name, name, getattr(self, name), MOST)})
        for name in ("brightness_by_max", "ensure_safe_range"):
            if not isinstance(getattr(self, name), bool):
                raise checks.refuse(self.name, name, "True or False", getattr(self, name))
        self.check_p()

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        flags = self.brightness_by_max, self.ensure_safe_range
        limits = (*self.brightness_limit, *self.contrast_limit)  # type: ignore[misc]
        return np.array((*limits, *flags, self.p), self.parameters)

    def scratch(self, state: State) -> int:
        """Return the bytes of the table of levels of uint8."""
        return LEVELS if state.dtype == "uint8" else 0


def brightness_contrast(
    *values: Value,
    brightness_limit: float | tuple[float, float] = (-0.2, 0.2),
    contrast_limit: float | tuple[float, float] = (-0.2, 0.2),
    brightness_by_max: bool = True,
    ensure_safe_range: bool = False,
    p: float = 0.5,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Change contrast and brightness of images of a pipeline; see `BrightnessContrast`."""
    op = BrightnessContrast(
        brightness_limit, contrast_limit, brightness_by_max, ensure_safe_range, p
    )
    return op(*values, stream=stream, relative=relative)
