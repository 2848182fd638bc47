"""Color arithmetic of uint8 images, in place and in fixed point: the pixel loops of color_jitter.

A factor f is the integer floor(f * 2**16 + 0.5); results are rounded, halves up, and clipped to
[0, 255]. Gray is Pillow's luma, (19595 R + 38470 G + 7471 B + 2**15) >> 16. Everything is computed
in int32, because numba would widen to int64. One array per loop: loops over two arrays that may
overlap are not vectorized.

Each function takes a flat, contiguous image; those of three channels count in pixels. The plain
forms work on `(H, W, 3)` int64 with NumPy and give the same levels.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.rng.maths import floor

BITS: Final = 16
SHIFT: Final = np.int32(BITS)
ONE: Final = np.int32(1 << BITS)
HALF: Final = np.int32(1 << (BITS - 1))
LOW: Final = np.int32(0)
HIGH: Final = np.int32(255)
RED: Final = np.uint32(19595)
GREEN: Final = np.uint32(38470)
BLUE: Final = np.uint32(7471)
ROUND: Final = np.uint32(1 << (BITS - 1))
DOWN: Final = np.uint32(BITS)
TWO: Final = np.int32(2)
THREE: Final = np.int32(3)
FOUR: Final = np.int32(4)
SIX: Final = np.int32(6)
K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)
LUMA: Final = np.array([19595, 38470, 7471])


@kernel
def fixed(value: float) -> Any:
    """Return a factor in units of 2**-16."""
    return np.int32(floor(value * 65536.0 + 0.5))


@kernel
def level(total: Any) -> Any:
    """Round and clip a sum in units of 2**-16 to a gray level."""
    return np.uint8(min(max(np.int32(np.int32(total + HALF) >> SHIFT), LOW), HIGH))


@kernel
def luma(red: Any, green: Any, blue: Any) -> Any:
    """Return the gray level of a pixel, of uint8 or uint16, as int32; the sum fits uint32."""
    total = np.uint32(RED * np.uint32(red)) + np.uint32(GREEN * np.uint32(green))
    total = np.uint32(total + np.uint32(BLUE * np.uint32(blue)) + ROUND)
    return np.int32(total >> DOWN)


@kernel
def write_luma(levels: Any, grays: Any) -> None:
    """Write the gray of each pixel of three levels; both arrays are flat."""
    for i in range(np.uint64(grays.size)):
        k = K3 * i
        grays[i] = luma(levels[k], levels[k + K1], levels[k + K2])


@kernel(twin="stoker.ops.kernels.simd.blends:blend_levels")
def blend_levels(image: Any, blocks: int, factor: Any, rest: Any) -> None:
    """Set every value x of blocks of 64 to factor*x + rest, rounded and clipped as `level`."""
    total = factor * image[: 64 * blocks].astype(np.int32) + rest
    image[: 64 * blocks] = plain_level(total)


@kernel
def blend_with(image: Any, factor: Any, other: Any) -> None:
    """Set every value x to factor*x + (1 - factor)*other."""
    rest = np.int32(np.int32(ONE - factor) * np.int32(other))
    blocks = image.size // 64
    blend_levels(image, blocks, factor, rest)
    for i in range(np.uint64(64 * blocks), np.uint64(image.size)):
        image[i] = level(np.int32(np.int32(factor * np.int32(image[i])) + rest))


@kernel
def mean_level(image: Any, pixels: int, channels: int) -> Any:
    """Return the mean gray level, rounded, halves up."""
    total = 0
    block = 65536
    for start in range(0, pixels, block):
        count = np.uint64(min(block, pixels - start))
        total += gray_sum(image, np.uint64(start), count, channels)
    return np.int32((2 * total + pixels) // (2 * pixels))


@kernel
def gray_sum(image: Any, start: Any, count: Any, channels: int) -> Any:
    """Return the sum of the gray levels of at most 2**16 pixels."""
    total = np.int32(0)
    if channels == 3:
        at = K3 * start
        for i in range(count):
            k = at + K3 * i
            total = np.int32(total + luma(image[k], image[k + K1], image[k + K2]))
    else:
        for i in range(count):
            total = np.int32(total + np.int32(image[start + i]))
    return np.int64(total)


@kernel
def saturate(image: Any, factor: Any) -> None:
    """Set every channel x of a pixel to factor*x + (1 - factor)*gray."""
    rest = np.int32(ONE - factor)
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        red, green, blue = image[k], image[k + K1], image[k + K2]
        gray = np.int32(rest * luma(red, green, blue))
        image[k] = level(np.int32(np.int32(factor * np.int32(red)) + gray))
        image[k + K1] = level(np.int32(np.int32(factor * np.int32(green)) + gray))
        image[k + K2] = level(np.int32(np.int32(factor * np.int32(blue)) + gray))


@kernel
def rotate_hue(image: Any, shift: Any) -> None:
    """Turn the hue by `shift` sixths of a turn, in units of 2**-16.

    With low and high the minimum and maximum channel and d = high - low, the hue is at p in
    [-d, 5d], d for a sixth: (G - B) if R is the maximum, else 2d + (B - R) if G is, else
    4d + (R - G). It moves to p' = p + d*shift, wrapped into [0, 6d). low and high do not change.
    """
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        red, green, blue = np.int32(image[k]), np.int32(image[k + K1]), np.int32(image[k + K2])
        high, low = max(red, green, blue), min(red, green, blue)
        d = np.int32(high - low)
        at_green = np.int32(np.int32(TWO * d) + np.int32(blue - red))
        at_blue = np.int32(np.int32(FOUR * d) + np.int32(red - green))
        p = at_green if green == high else at_blue
        p = np.int32(green - blue) if red == high else p
        unit = np.int32(d << SHIFT)
        turn = np.int32(SIX * unit)
        p = np.int32(np.int32(p << SHIFT) + np.int32(d * shift))
        p = np.int32(p + turn) if p < LOW else p
        p = np.int32(p - turn) if p >= turn else p
        image[k] = channel(low, np.int32(away(p, np.int32(THREE * unit)) - unit), unit)
        image[k + K1] = channel(low, descent(p, np.int32(TWO * unit), unit), unit)
        image[k + K2] = channel(low, descent(p, np.int32(FOUR * unit), unit), unit)


@kernel
def away(p: Any, center: Any) -> Any:
    """Return |p - center|."""
    return max(np.int32(p - center), np.int32(center - p))


@kernel
def descent(p: Any, center: Any, unit: Any) -> Any:
    """Return 2d - |p - center|."""
    return np.int32(np.int32(TWO * unit) - away(p, center))


@kernel
def channel(low: Any, height: Any, unit: Any) -> Any:
    """Return low plus the height, clipped to [0, d] and rounded, halves up."""
    height = min(max(height, LOW), unit)
    return np.uint8(np.int32(low + np.int32(np.int32(height + HALF) >> SHIFT)))


def plain_level(total: np.ndarray) -> np.ndarray:
    """Round and clip sums in units of 2**-16."""
    levels: np.ndarray = np.clip((total + int(HALF)) >> BITS, 0, 255)
    return levels


def plain_luma(image: np.ndarray) -> np.ndarray:
    """Return gray levels `(H, W, 1)`; an image of one channel is gray."""
    if image.shape[2] == 1:
        return image
    gray: np.ndarray = (image @ LUMA + int(HALF)) >> BITS
    return gray[..., None]


def plain_mean(image: np.ndarray) -> int:
    """Return the mean gray level, rounded, halves up."""
    pixels = int(image.shape[0] * image.shape[1])
    total = int(plain_luma(image).sum())
    return (2 * total + pixels) // (2 * pixels)


def plain_blend(image: np.ndarray, factor: int, other: np.ndarray | int) -> np.ndarray:
    """Return factor*x + (1 - factor)*other."""
    return plain_level(factor * image + (int(ONE) - factor) * other)


def plain_hue(image: np.ndarray, shift: int) -> np.ndarray:
    """Return the image with its hue turned."""
    red, green, blue = image[..., 0], image[..., 1], image[..., 2]
    high, low = image.max(-1), image.min(-1)
    d = high - low
    p = np.where(green == high, 2 * d + blue - red, 4 * d + red - green)
    p = np.where(red == high, green - blue, p)
    unit = d << BITS
    p = (p << BITS) + d * shift
    p = np.where(p < 0, p + 6 * unit, p)
    p = np.where(p >= 6 * unit, p - 6 * unit, p)
    heights = (
        abs(p - 3 * unit) - unit,
        2 * unit - abs(p - 2 * unit),
        2 * unit - abs(p - 4 * unit),
    )
    rounded = [(np.clip(height, 0, unit) + int(HALF)) >> BITS for height in heights]
    turned: np.ndarray = low[..., None] + np.stack(rounded, -1)
    return turned
