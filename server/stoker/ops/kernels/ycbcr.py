"""RGB to YCbCr and back in fixed point, as in JPEG files (JFIF 1.02: ITU-R BT.601, full range).

Coefficients are rounded to 2**-16, as in the Independent JPEG Group's library: a constant c is
floor(c * 2**16 + 0.5). Luma is Pillow's gray (`kernels.color`). Everything is computed in int32.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.color import HALF, HIGH, LOW, SHIFT, plain_luma

BLUE_RED: Final = np.int32(11059)
"""0.168735892: the weight of red in Cb, negated."""
BLUE_GREEN: Final = np.int32(21709)
"""0.331264108: the weight of green in Cb, negated."""
RED_GREEN: Final = np.int32(27439)
"""0.418687589: the weight of green in Cr, negated."""
RED_BLUE: Final = np.int32(5329)
"""0.081312411: the weight of blue in Cr, negated."""
CENTER: Final = np.int32((128 << 16) - 1)
"""Chroma of gray, reduced so that the maximum chroma, 255.5, is rounded to below 256."""
TO_RED: Final = np.int32(91881)
"""1.402"""
TO_BLUE: Final = np.int32(116130)
"""1.772"""
GREEN_BLUE: Final = np.int32(22554)
"""0.344136286"""
GREEN_RED: Final = np.int32(46802)
"""0.714136286"""
GRAY: Final = np.int32(128)
CHROMA: Final = np.array([[-11059, -21709, 32768], [32768, -27439, -5329]]).T


@kernel
def chroma(red: Any, green: Any, blue: Any) -> Any:
    """Return (Cb, Cr) of a pixel of int32 levels, as int32."""
    cb = np.int32(np.int32(blue << np.int32(15)) - np.int32(BLUE_RED * red))
    cb = np.int32(np.int32(cb - np.int32(BLUE_GREEN * green)) + CENTER)
    cr = np.int32(np.int32(red << np.int32(15)) - np.int32(RED_GREEN * green))
    cr = np.int32(np.int32(cr - np.int32(RED_BLUE * blue)) + CENTER)
    return np.int32(np.int32(cb + HALF) >> SHIFT), np.int32(np.int32(cr + HALF) >> SHIFT)


@kernel
def clipped(level: Any) -> Any:
    """Clip an int32 to [0, 255]."""
    return np.uint8(min(max(level, LOW), HIGH))


@kernel
def colors(gray: Any, cb: Any, cr: Any) -> Any:
    """Return (red, green, blue) for luma and chroma in int32, as uint8."""
    b, r = np.int32(cb - GRAY), np.int32(cr - GRAY)
    red = np.int32(np.int32(np.int32(TO_RED * r) + HALF) >> SHIFT)
    blue = np.int32(np.int32(np.int32(TO_BLUE * b) + HALF) >> SHIFT)
    green = np.int32(np.int32(HALF - np.int32(GREEN_BLUE * b)) - np.int32(GREEN_RED * r))
    green = np.int32(green >> SHIFT)
    return (
        clipped(np.int32(gray + red)),
        clipped(np.int32(gray + green)),
        clipped(np.int32(gray + blue)),
    )


def plain_to_ycbcr(image: np.ndarray) -> np.ndarray:
    """Return `(..., 3)` Y, Cb, Cr of `(H, W, 3)` int64, with NumPy."""
    both = (image @ CHROMA + int(CENTER) + int(HALF)) >> 16
    return np.concatenate([plain_luma(image), both], -1)


def plain_to_rgb(image: np.ndarray) -> np.ndarray:
    """Return `(H, W, 3)` red, green, blue of `(H, W, 3)` int64 Y, Cb, Cr, with NumPy."""
    gray, b, r = image[..., 0], image[..., 1] - 128, image[..., 2] - 128
    moved = (91881 * r, -22554 * b - 46802 * r, 116130 * b)
    parts = [np.clip(gray + ((part + int(HALF)) >> 16), 0, 255) for part in moved]
    return np.stack(parts, -1)
