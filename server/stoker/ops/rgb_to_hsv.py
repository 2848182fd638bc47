"""Turn red, green and blue into hue (0 to 179), saturation and value: OpenCV's RGB2HSV of uint8.

No randomness. Arithmetic: `stoker.ops.hsv`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.ops.color import K1, K2, K3
from stoker.ops.colour_space import ColourSpaceOp, plain_form
from stoker.ops.contract import Kernel, State, Value
from stoker.ops.hsv import BITS, CIRCLE, TABLE, fill_divisions, hue_of, plain_to_hsv
from stoker.ops.pixelwise import begin
from stoker.ops.registry import register
from stoker.rng.jit import kernel


@kernel
def to_hsv(image: Any, hues: Any, saturations: Any) -> None:
    """Convert a flat image in place, by division tables of hue and saturation."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        red, green, blue = np.int64(image[k]), np.int64(image[k + K1]), np.int64(image[k + K2])
        hue, value, d = hue_of(red, green, blue, hues)
        image[k] = hue
        image[k + K1] = (d * np.int64(saturations[value]) + (1 << (BITS - 1))) >> BITS
        image[k + K2] = value


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    hues = scratch[: 4 * TABLE].view(np.int32)
    saturations = scratch[4 * TABLE : 8 * TABLE].view(np.int32)
    fill_divisions(CIRCLE, 6, hues)
    fill_divisions(255, 1, saturations)
    to_hsv(begin(src, dst), hues, saturations)


@register
@dataclass(frozen=True)
class RgbToHsv(ColourSpaceOp):
    """Turn red, green and blue into hue, saturation and value."""

    name: ClassVar[str] = "rgb_to_hsv"
    kernels: ClassVar[dict[str, Kernel]] = {
        "image": Kernel(_run, plain_form(plain_to_hsv), in_place=True)
    }

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states as they are, and the bytes of two division tables."""
        return super().declare(states)[0], 8 * TABLE


def rgb_to_hsv(*values: Value, stream: str | None = None) -> Any:
    """Turn images of a pipeline into hue, saturation and value; see `RgbToHsv`."""
    return RgbToHsv()(*values, stream=stream)
