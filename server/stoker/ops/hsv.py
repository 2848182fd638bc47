"""RGB to hue, saturation and value and back, for uint8: hue from 0 to 179, as OpenCV's RGB2HSV.

Forth is OpenCV's integer arithmetic (12 fraction bits, division by table); its levels are OpenCV's.
Back is the exact value of the usual formula, rounded, halves up: with hue = 30 sector + f,
value times (255 - s), (255 - s f / 30) or (255 - s (30 - f) / 30), over 255. A hue of 180 or more
begins again at 0.
"""

from typing import Any, Final

import numpy as np

from stoker.rng.jit import kernel

BITS: Final = 12
TABLE: Final = 256
"""Entries of a division table."""
SECTOR: Final = 30
"""Units of hue in a sixth of the circle."""
CIRCLE: Final = 180
DENOMINATOR: Final = 255 * SECTOR


@kernel
def fill_divisions(top: int, times: int, table: Any) -> None:
    """Write round(top * 2**12 / (times * i)) for every i from 1 to 255, and 0 for 0.

    OpenCV rounds halves to even.
    """
    table[0] = 0
    for i in range(1, TABLE):
        below = times * i
        whole = (top << BITS) // below
        rest = 2 * ((top << BITS) - whole * below)
        table[i] = whole + (1 if rest > below or (rest == below and whole % 2 == 1) else 0)


@kernel
def hue_of(red: Any, green: Any, blue: Any, divisions: Any) -> Any:
    """Return (hue, value, difference) of a pixel of int64 levels."""
    high, low = max(red, green, blue), min(red, green, blue)
    d = high - low
    if high == red:
        turn = green - blue
    elif high == green:
        turn = blue - red + 2 * d
    else:
        turn = red - green + 4 * d
    hue = (turn * np.int64(divisions[d]) + (1 << (BITS - 1))) >> BITS
    return (hue + CIRCLE if hue < 0 else hue), high, d


@kernel
def parts_of(hue: Any, saturation: Any, value: Any) -> Any:
    """Return (sector, p, q, t): the sixth of the circle, and the levels that are not `value`."""
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
    """Return a division table with NumPy, whose rint rounds halves to even."""
    below = times * np.arange(1, TABLE)
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
