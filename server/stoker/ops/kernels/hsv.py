"""RGB to hue, saturation and value and back, for uint8: hue from 0 to 179, as OpenCV's RGB2HSV.

To HSV: OpenCV's integer arithmetic (12 fraction bits, rounded quotients), with OpenCV's levels.
To RGB: the exact value of the usual formula, rounded, halves up: with hue = 30 sector + f,
value times (255 - s), (255 - s f / 30) or (255 - s (30 - f) / 30), over 255. A hue of 180 or more
wraps around to 0.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel

BITS: Final = 12
SECTOR: Final = 30
"""Units of hue in a sixth of the circle."""
CIRCLE: Final = np.int32(180)
SHIFT: Final = np.int32(BITS)
HALF: Final = np.int32(1 << (BITS - 1))
NOTHING: Final = np.int32(0)
UNIT: Final = np.int32(1)
NEAREST: Final = np.float32(3 << 22)
SIXTHS: Final = np.float32((180 << BITS) // 6)
"""A sixth of the circle of hue, with fraction bits."""
WHOLE: Final = np.float32(255 << BITS)
"""The maximum saturation, with fraction bits."""
DENOMINATOR: Final = 255 * SECTOR


@kernel
def division(top: Any, below: Any) -> Any:
    """Return top / below of int32, rounded, halves to even; below 0 counts as 1.

    Computed in float32: NEAREST is added, where the unit is 1, and subtracted again. A quotient of
    up to 2**20 has an error below a sixteenth of 1 / below, so it is rounded like the exact one.
    """
    quotient = np.float32(top / np.float32(max(below, UNIT)))
    return np.int32(np.float32(np.float32(quotient + NEAREST) - NEAREST))


@kernel
def hue_of(red: Any, green: Any, blue: Any) -> Any:
    """Return (hue, value, difference) of a pixel of int32 levels, as int32."""
    high, low = max(red, green, blue), min(red, green, blue)
    d = np.int32(high - low)
    at_green = np.int32(np.int32(blue - red) + np.int32(d + d))
    at_blue = np.int32(np.int32(red - green) + np.int32(np.int32(d + d) + np.int32(d + d)))
    turn = at_green if high == green else at_blue
    turn = np.int32(green - blue) if high == red else turn
    hue = rounded(np.int32(turn * division(SIXTHS, d)))
    return (np.int32(hue + CIRCLE) if hue < NOTHING else hue), high, d


@kernel
def rounded(product: Any) -> Any:
    """Drop the fraction bits of an int32, rounded, halves up."""
    return np.int32(np.int32(product + HALF) >> SHIFT)


@kernel
def parts_of(hue: Any, saturation: Any, value: Any) -> Any:
    """Return (sector, p, q, t): the sixth of the circle, and the levels other than `value`."""
    turned = hue % CIRCLE
    sector, f = turned // SECTOR, turned % SECTOR
    return (
        sector,
        share(value, SECTOR * saturation),
        share(value, saturation * f),
        share(value, saturation * (SECTOR - f)),
    )


@kernel
def share(value: Any, less: Any) -> Any:
    """Return value * (7650 - less) / 7650, rounded, halves up."""
    return (2 * value * (DENOMINATOR - less) + DENOMINATOR) // (2 * DENOMINATOR)


def plain_to_hsv(image: np.ndarray) -> np.ndarray:
    """Return `(H, W, 3)` hue, saturation, value of `(H, W, 3)` int64, with NumPy."""
    red, green, blue = image[..., 0], image[..., 1], image[..., 2]
    value, d = image.max(-1), image.max(-1) - image.min(-1)
    turn = np.where(value == green, blue - red + 2 * d, red - green + 4 * d)
    turn = np.where(value == red, green - blue, turn)
    hue = (turn * plain_divisions(180, 6)[d] + 2048) >> BITS
    saturation = (d * plain_divisions(255, 1)[value] + 2048) >> BITS
    return np.stack([np.where(hue < 0, hue + CIRCLE, hue), saturation, value], -1)


def plain_divisions(top: int, times: int) -> np.ndarray:
    """Return quotients by 0, 1, ..., 255 with NumPy, whose rint rounds halves to even."""
    below = times * np.arange(1, 256)
    return np.concatenate([[0], np.rint((top << BITS) / below).astype(np.int64)])


def plain_to_rgb(image: np.ndarray) -> np.ndarray:
    """Return `(H, W, 3)` red, green, blue of `(H, W, 3)` int64 hue, saturation, value."""
    turned, saturation, value = image[..., 0] % CIRCLE, image[..., 1], image[..., 2]
    sector, f = turned // SECTOR, turned % SECTOR
    less = (SECTOR * saturation, saturation * f, saturation * (SECTOR - f))
    p, q, t = (
        (2 * value * (DENOMINATOR - part) + DENOMINATOR) // (2 * DENOMINATOR) for part in less
    )
    red = np.choose(sector, [value, q, p, p, t, value])
    green = np.choose(sector, [t, value, value, q, p, p])
    blue = np.choose(sector, [p, p, t, value, value, q])
    return np.stack([red, green, blue], -1)
