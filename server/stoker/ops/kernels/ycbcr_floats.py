"""RGB to YCbCr and back for images of floats: `kernels.ycbcr` in float32, chroma around 0.5.

The coefficients are those of levels, multiples of 2**-16, which float32 holds exactly. Every
operation is rounded once, in the order written; nothing is clipped, and every NaN becomes
the same NaN (`stoker.ops.kernels.float_levels`). Images are flat, and changed in place.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels import ycbcr
from stoker.ops.kernels.color_floats import K1, K2, K3, gray_of, plain_gray
from stoker.ops.kernels.float_levels import number, plain_number

UNIT: Final = 1 << 16
BLUE_RED, BLUE_GREEN, RED_GREEN, RED_BLUE, TO_RED, TO_BLUE, GREEN_BLUE, GREEN_RED = (
    np.float32(coefficient / UNIT)
    for coefficient in (
        ycbcr.BLUE_RED,
        ycbcr.BLUE_GREEN,
        ycbcr.RED_GREEN,
        ycbcr.RED_BLUE,
        ycbcr.TO_RED,
        ycbcr.TO_BLUE,
        ycbcr.GREEN_BLUE,
        ycbcr.GREEN_RED,
    )
)
HALF: Final = np.float32(0.5)


@kernel
def chroma(red: Any, green: Any, blue: Any) -> Any:
    """Return (Cb, Cr) of a pixel."""
    cb = HALF * blue - BLUE_RED * red - BLUE_GREEN * green + HALF
    return cb, HALF * red - RED_GREEN * green - RED_BLUE * blue + HALF


@kernel
def colors(gray: Any, cb: Any, cr: Any) -> Any:
    """Return (red, green, blue) for luma and chroma."""
    b, r = cb - HALF, cr - HALF
    return gray + TO_RED * r, gray - GREEN_BLUE * b - GREEN_RED * r, gray + TO_BLUE * b


@kernel
def floats_to_ycbcr(image: Any) -> None:
    """Turn red, green and blue into Y, Cb and Cr."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        red, green, blue = image[k], image[k + K1], image[k + K2]
        cb, cr = chroma(red, green, blue)
        image[k] = number(gray_of(red, green, blue))
        image[k + K1] = number(cb)
        image[k + K2] = number(cr)


@kernel
def ycbcr_to_floats(image: Any) -> None:
    """Turn Y, Cb and Cr into red, green and blue."""
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        red, green, blue = colors(image[k], image[k + K1], image[k + K2])
        image[k] = number(red)
        image[k + K1] = number(green)
        image[k + K2] = number(blue)


def plain_floats_to_ycbcr(image: np.ndarray) -> np.ndarray:
    """The reference of `floats_to_ycbcr`, of `(H, W, 3)`."""
    both = chroma(image[..., 0], image[..., 1], image[..., 2])
    return plain_number(np.concatenate([plain_gray(image), np.stack(both, -1)], -1))


def plain_ycbcr_to_floats(image: np.ndarray) -> np.ndarray:
    """The reference of `ycbcr_to_floats`, of `(H, W, 3)`."""
    return plain_number(np.stack(colors(image[..., 0], image[..., 1], image[..., 2]), -1))
