"""Color arithmetic of images of floats: the counterpart of `kernels.color`, in float32.

Every operation is rounded once, in the order written. A factor f counts as float32(f), the rest
as float32(1 - f) computed in float64; a factor of 1 changes nothing. Results are clipped to [0, 1]
(`kernels.float_levels`), as in torchvision. Gray has the same weights as for levels, with sum 1.

Each function takes a flat, contiguous image and works in place; the plain forms work on `(H, W, C)`
float32 with NumPy and give the same bits.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.color import LUMA
from stoker.ops.kernels.float_levels import ONE, ZERO, greater, lesser, plain_unit, unit
from stoker.ops.kernels.lane_sums import EMPTY, add_lanes, plain_total, total

PART: Final = np.float64(1 / 255)
WIDE_PART: Final = np.float64(1 / 65535)
"""A level of uint8, and of uint16, as a float."""

RED, GREEN, BLUE = (np.float32(weight / 65536) for weight in LUMA)
TWO: Final = np.float32(2)
THREE: Final = np.float32(3)
FOUR: Final = np.float32(4)
SIX: Final = np.float32(6)
K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)
BLOCK: Final = 512
"""Gray values that are computed at a time."""
MEAN_BYTES: Final = 4 * BLOCK
"""Scratch that `mean_gray` needs."""


@kernel
def gray_of(red: Any, green: Any, blue: Any) -> Any:
    """Return the gray of a pixel."""
    return RED * red + GREEN * green + BLUE * blue


@kernel
def blend_unit(image: Any, factor: float, other: Any) -> None:
    """Set every value x to factor*x + (1 - factor)*other, clipped."""
    part = np.float32(factor)
    if part != ONE:
        blend_run(image, part, np.float32(1.0 - factor) * other)


@kernel
def blend_run(image: Any, part: Any, shade: Any) -> None:
    """Set every value x to part*x + shade, clipped."""
    for i in range(np.uint64(image.size)):
        image[i] = unit(part * image[i] + shade)


@kernel
def write_grays(image: Any, start: Any, count: Any, grays: Any) -> None:
    """Write the gray of `count` pixels, from index `start` on."""
    for i in range(count):
        k = start + K3 * i
        grays[i] = gray_of(image[k], image[k + K1], image[k + K2])


@kernel
def mean_gray(image: Any, channels: int, scratch: Any) -> Any:
    """Return the mean gray of an image of 1 or 3 channels, by `stoker.ops.kernels.lane_sums`."""
    pixels = image.size // channels
    sums = EMPTY
    if channels == 1:
        sums = add_lanes(image, np.uint64(0), np.uint64(pixels), sums)
    else:
        grays = scratch[:MEAN_BYTES].view(np.float32)
        for start in range(0, pixels, BLOCK):
            count = np.uint64(min(BLOCK, pixels - start))
            write_grays(image, K3 * np.uint64(start), count, grays)
            sums = add_lanes(grays, np.uint64(0), count, sums)
    return np.float32(total(sums) / np.float64(pixels))


@kernel
def saturate_unit(image: Any, factor: float) -> None:
    """Set every channel x of a pixel to factor*x + (1 - factor)*gray, clipped."""
    part = np.float32(factor)
    if part != ONE:
        saturate_run(image, part, np.float32(1.0 - factor))


@kernel
def saturate_run(image: Any, part: Any, rest: Any) -> None:
    """Set every channel x of a pixel to part*x + rest*gray, clipped."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        red, green, blue = image[k], image[k + K1], image[k + K2]
        gray = rest * gray_of(red, green, blue)
        image[k] = unit(part * red + gray)
        image[k + K1] = unit(part * green + gray)
        image[k + K2] = unit(part * blue + gray)


@kernel
def hue_parts(red: Any, green: Any, blue: Any) -> Any:
    """Return (p, low, high, d): d = high - low is a sixth of the circle, p the position on it.

    p is in [-d, 5d]: (G - B) if R is the maximum, else 2d + (B - R) if G is, else
    4d + (R - G).
    """
    high = greater(greater(red, green), blue)
    low = lesser(lesser(red, green), blue)
    d = high - low
    at_green, at_blue = TWO * d + (blue - red), FOUR * d + (red - green)
    p = at_green if green == high else at_blue
    p = green - blue if red == high else p
    return p, low, high, d


@kernel
def rotate_unit(image: Any, turn: float) -> None:
    """Turn the hue by a fraction of the circle, and clip; a turn of 0 changes nothing."""
    shift = np.float32(6.0 * turn)
    if shift != ZERO:
        rotate_run(image, shift)


@kernel
def rotate_run(image: Any, shift: Any) -> None:
    """Turn the hue by `shift` sixths of the circle, and clip."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        p, low, _, d = hue_parts(image[k], image[k + K1], image[k + K2])
        circle = SIX * d
        p = p + d * shift
        p = p + circle if p < ZERO else p
        p = p - circle if p >= circle else p
        image[k] = unit(low + part_of(away(p, THREE * d) - d, d))
        image[k + K1] = unit(low + part_of(TWO * d - away(p, TWO * d), d))
        image[k + K2] = unit(low + part_of(TWO * d - away(p, FOUR * d), d))


@kernel
def away(p: Any, center: Any) -> Any:
    """Return |p - center|."""
    return greater(p - center, center - p)


@kernel
def part_of(height: Any, d: Any) -> Any:
    """Clip a height to [0, d]."""
    return lesser(greater(height, ZERO), d)


def plain_gray(image: np.ndarray) -> np.ndarray:
    """Return gray values `(H, W, 1)`; an image of one channel is gray."""
    if image.shape[2] == 1:
        return image
    gray: np.ndarray = RED * image[..., :1] + GREEN * image[..., 1:2] + BLUE * image[..., 2:]
    return gray


def plain_mean_gray(image: np.ndarray) -> np.float32:
    """Return the mean gray; the reference of `mean_gray`."""
    return np.float32(plain_total(plain_gray(image)) / (image.shape[0] * image.shape[1]))


def plain_blend_unit(image: np.ndarray, factor: float, other: Any) -> np.ndarray:
    """Return factor*x + (1 - factor)*other, clipped."""
    part = np.float32(factor)
    if part == ONE:
        return image
    return plain_unit(part * image + np.float32(1.0 - factor) * other)


def plain_hue_parts(image: np.ndarray) -> Any:
    """Return (p, low, high, d), each `(H, W)`; the reference of `hue_parts`."""
    red, green, blue = image[..., 0], image[..., 1], image[..., 2]
    high, low = np.where(red > green, red, green), np.where(red < green, red, green)
    high, low = np.where(high > blue, high, blue), np.where(low < blue, low, blue)
    d = high - low
    p = np.where(green == high, TWO * d + (blue - red), FOUR * d + (red - green))
    return np.where(red == high, green - blue, p), low, high, d


def plain_rotate_unit(image: np.ndarray, turn: float) -> np.ndarray:
    """Return the image with its hue turned; the reference of `rotate_unit`."""
    shift = np.float32(6.0 * turn)
    if shift == ZERO or image.shape[2] == 1:
        return image
    p, low, _, d = plain_hue_parts(image)
    circle = SIX * d
    p = p + d * shift
    p = np.where(p < ZERO, p + circle, p)
    p = np.where(p >= circle, p - circle, p)
    heights = (
        plain_away(p, THREE * d) - d,
        TWO * d - plain_away(p, TWO * d),
        TWO * d - plain_away(p, FOUR * d),
    )
    parts = [np.where(height > ZERO, height, ZERO) for height in heights]
    parts = [np.where(part < d, part, d) for part in parts]
    return plain_unit(low[..., None] + np.stack(parts, -1))


def plain_away(p: np.ndarray, center: Any) -> np.ndarray:
    """Return |p - center|."""
    distance: np.ndarray = np.where(p - center > center - p, p - center, center - p)
    return distance
