"""Add a level to each channel, with probability p, as Albumentations' RGBShift.

Draws: 0 applied if uniform < p; 1, 2 and 3 the shifts of red, green and blue, uniform in their
ranges, in levels. Levels become clip(x + floor(shift + 0.5)); floats clip(x + shift / 255), where
shift / 255 is rounded to float32.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, LEVELS, PixelOp, begin, look_up, plain_floats
from stoker.ops.bases.wide_floats import narrow, through_floats, widened
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import refuse
from stoker.ops.contract.states import State
from stoker.ops.kernels.color_floats import PART
from stoker.ops.kernels.float_levels import plain_unit, unit
from stoker.rng.draws import bernoulli, uniform_range
from stoker.rng.maths import floor

Range = tuple[float, float]
MOST: Final = 255.0
TO_RGB: Final = "Make a gray image RGB with to_rgb first"


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    for channel in range(3):
        low, high = params["low"][channel], params["high"][channel]
        record["shift"][channel] = uniform_range(key, 1 + channel, low, high)


@kernel
def fill_shifted(shift: float, first: int, tables: Any) -> None:
    """Write the new level of each of the 256 levels, from index `first` on."""
    step = int(floor(shift + 0.5))
    for x in range(LEVELS):
        tables[first + x] = min(max(x + step, 0), 255)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        for channel in range(3):
            fill_shifted(record["shift"][channel], LEVELS * channel, scratch)
        look_up(image, scratch, 3)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        steps = np.floor(np.asarray(record["shift"]) + 0.5).astype(np.int64)
        dst[...] = np.clip(src + steps, 0, 255)


@kernel
def shift_floats(image: Any, red: Any, green: Any, blue: Any) -> None:
    """Add a number to each channel of a flat image of floats, and clip."""
    for i in range(np.uint64(image.size // 3)):
        k = np.uint64(3) * i
        image[k] = unit(image[k] + red)
        image[k + np.uint64(1)] = unit(image[k + np.uint64(1)] + green)
        image[k + np.uint64(2)] = unit(image[k + np.uint64(2)] + blue)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image, shift = begin(src, dst), record["shift"]
    if record["apply"]:
        red, green = np.float32(shift[0] * PART), np.float32(shift[1] * PART)
        shift_floats(image, red, green, np.float32(shift[2] * PART))


@kernel
def _run_wide(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image, rest = widened(src, scratch)
    _run_floats(image, image, params, record, rest)
    narrow(image, dst)


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    return plain_unit(image + (np.asarray(record["shift"]) * PART).astype(np.float32))


@register
@dataclass(frozen=True)
class RgbShift(PixelOp):
    """Add a level to each channel of an RGB image.

    Attributes:
        red_range: (low, high) of what is added to red, in levels, from -255 to 255; of floats in
            units of 1 / 255.
        green_range: the same for green.
        blue_range: the same for blue.
        p: probability.
    """

    red_range: Range = (-20.0, 20.0)
    green_range: Range = (-20.0, 20.0)
    blue_range: Range = (-20.0, 20.0)
    p: float = 0.5

    name: ClassVar[str] = "rgb_shift"
    takes_floats: ClassVar[bool] = True
    takes_wide: ClassVar[bool] = True
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("low", "f8", (3,)), ("high", "f8", (3,)), ("p", "f8")]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype([("shift", "f8", (3,)), APPLY])
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(_run, _plain, in_place=True)}
    floats: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run_floats, _plain_floats, in_place=True)
    }
    wide: ClassVar[dict[str, Kernel]] = through_floats(_run_wide, floats["image"])
    draw = staticmethod(_draw)

    def check(self) -> None:
        """Check the parameters."""
        for name in ("red_range", "green_range", "blue_range"):
            given = getattr(self, name)
            self.settle(**{name: checks.span(self.name, name, given, -MOST, MOST)})
        self.check_p()

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        low, high = zip(self.red_range, self.green_range, self.blue_range, strict=True)
        return np.array((low, high, self.p), self.parameters)

    def scratch(self, state: State) -> int:
        """Return the bytes of a table for each channel."""
        return 3 * LEVELS

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states as they are.

        Raises:
            StateError: an image does not have three channels.
        """
        declared = super().declare(states)
        for state in states:
            if state.shape[2] != 3:
                raise refuse(self.name, "an image of 3 channels (RGB)", state, TO_RGB)
        return declared


def rgb_shift(
    *values: Value,
    red_range: Range = (-20.0, 20.0),
    green_range: Range = (-20.0, 20.0),
    blue_range: Range = (-20.0, 20.0),
    p: float = 0.5,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Add a level to each channel of images of a pipeline; see `RgbShift`."""
    op = RgbShift(red_range, green_range, blue_range, p)
    return op(*values, stream=stream, relative=relative)
