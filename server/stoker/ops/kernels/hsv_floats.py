"""RGB to hue, saturation and value and back for images of floats: all three from 0 to 1.

A hue of 1 would be the whole circle, so it is in [0, 1), as in Python's colorsys and scikit-image.
To HSV: with p and d of `kernels.color_floats`, hue is p / (6 d), plus 1 if that is negative;
saturation is d / value. A pixel without a difference has hue 0, one whose value is not above 0
has saturation 0. To RGB: full turns of the hue are ignored; a hue of 2**23 or more, or NaN, counts
as 0. Every operation is float32, rounded once, in the order written; nothing is clipped, and every
NaN becomes the same NaN (`kernels.float_levels`). Images are flat, and changed in place.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.color_floats import (
    FOUR,
    K1,
    K2,
    K3,
    SIX,
    THREE,
    TWO,
    away,
    hue_parts,
    part_of,
    plain_away,
    plain_hue_parts,
)
from stoker.ops.kernels.float_levels import ONE, ZERO, number, plain_number

TURNS: Final = np.float32(1 << 23)
"""From this value on every float32 is an integer number of turns."""


@kernel
def quotient(a: Any, b: Any, given: Any) -> Any:
    """Return a / b, or 0 if not `given`."""
    return a / (b if given else ONE) if given else ZERO


@kernel
def floats_to_hsv(image: Any) -> None:
    """Turn red, green and blue into hue, saturation and value."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        p, _, high, d = hue_parts(image[k], image[k + K1], image[k + K2])
        hue = quotient(p, SIX * d, d != ZERO)
        image[k] = number(hue + ONE if hue < ZERO else hue)
        image[k + K1] = number(quotient(d, high, high > ZERO))
        image[k + K2] = number(high)


@kernel
def sixths(hue: Any) -> Any:
    """Return six times the fractional part of a turn, from 0 to 6."""
    hue = hue if -TURNS < hue < TURNS else ZERO
    whole = np.float32(np.int32(hue))
    whole = whole - ONE if hue < whole else whole
    return SIX * (hue - whole)


@kernel
def hsv_to_floats(image: Any) -> None:
    """Turn hue, saturation and value into red, green and blue."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        turn, value = sixths(image[k]), image[k + K2]
        d = value * image[k + K1]
        low = value - d
        image[k] = number(low + d * part_of(away(turn, THREE) - ONE, ONE))
        image[k + K1] = number(low + d * part_of(TWO - away(turn, TWO), ONE))
        image[k + K2] = number(low + d * part_of(TWO - away(turn, FOUR), ONE))


def plain_floats_to_hsv(image: np.ndarray) -> np.ndarray:
    """The reference of `floats_to_hsv`, of `(H, W, 3)`."""
    p, _, high, d = plain_hue_parts(image)
    hue = np.where(d != ZERO, p / (SIX * d), ZERO)
    hue = np.where(hue < ZERO, hue + ONE, hue)
    return plain_number(np.stack([hue, np.where(high > ZERO, d / high, ZERO), high], -1))


def plain_hsv_to_floats(image: np.ndarray) -> np.ndarray:
    """The reference of `hsv_to_floats`, of `(H, W, 3)`."""
    hue = np.where(abs(image[..., 0]) < TURNS, image[..., 0], ZERO)
    turn, value = SIX * (hue - np.floor(hue)), image[..., 2]
    d = value * image[..., 1]
    heights = (
        plain_away(turn, THREE) - ONE,
        TWO - plain_away(turn, TWO),
        TWO - plain_away(turn, FOUR),
    )
    parts = [np.clip(height, ZERO, ONE) for height in heights]
    return plain_number((value - d)[..., None] + d[..., None] * np.stack(parts, -1))
