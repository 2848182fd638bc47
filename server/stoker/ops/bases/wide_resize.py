"""Filtered resize of images of uint16 and int16: as images of floats, then rounded.

The numbers become float32, exactly, and are resized by `kernels.resample_floats`. A result is
rounded to nearest, halves up, and clipped to what the dtype holds. Nearest copies numbers.

Scratch, each part aligned to 64 bytes: the box as floats, the result as floats, and what the
resize of floats needs.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.box_resize import box_of
from stoker.ops.bases.resizing import NEAREST, filter_of, plain_image
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.kernels.nearest import nearest, plain_nearest
from stoker.ops.kernels.resample import padded, plain_resample
from stoker.ops.kernels.resample_floats import plain_float_pass, resample_floats

LIMITS: Final = (np.float32(0), np.float32(65535))
SIGNED_LIMITS: Final = (np.float32(-32768), np.float32(32767))
HALF: Final = np.float64(0.5)


@kernel
def _widened(src: Any, box: Any, floats: Any) -> None:
    """Write the levels of a box as flat float32."""
    channels, image = src.shape[2], src.reshape(src.size)
    line = np.uint64(box[3] * channels)
    for y in range(box[2]):
        at = np.uint64(((box[0] + y) * src.shape[1] + box[1]) * channels)
        to = np.uint64(y) * line
        for i in range(line):
            floats[to + i] = np.float32(image[at + i])


@kernel
def resize_wide(src: Any, dst: Any, box: Any, interpolation: int, scratch: Any) -> None:
    """Resize a box of an image of uint16; as `resize_within`."""
    resize_within(src, dst, box, interpolation, scratch, LIMITS)


@kernel
def resize_within(
    src: Any, dst: Any, box: Any, interpolation: int, scratch: Any, limits: Any
) -> None:
    """Resize a box of an image of 16 bits.

    Args:
        src: `(H, W, C)` uint16 or int16, contiguous.
        dst: `(h, w, C)` of the same dtype, contiguous.
        box: (top, left, height, width) in pixels, inside of `src`.
        interpolation: number of the interpolation.
        scratch: `wide_bytes` more than the resize of an image of floats needs.
        limits: least and greatest number of the dtype, float32.
    """
    if interpolation == NEAREST:
        nearest(src, box, dst, scratch)
        return
    height, width, channels = box[2], box[3], src.shape[2]
    count, size = height * width * channels, (dst.shape[0], dst.shape[1])
    a = padded(4 * count)
    b = a + padded(4 * dst.size)
    floats = scratch[: 4 * count].view(np.float32)
    _widened(src, box, floats)
    image = floats.reshape((height, width, channels))
    made, levels = scratch[a : a + 4 * dst.size].view(np.float32), dst.reshape(dst.size)
    whole, part = (0, 0, height, width), (0, 0, size[0], size[1])
    resample_floats(image, whole, size, part, made, filter_of(interpolation), scratch[b:])
    low, most = limits
    base, least = np.float64(low), np.int32(low)
    for i in range(np.uint64(dst.size)):
        level = np.float64(min(max(made[i], low), most))
        levels[i] = np.int32(np.int32(level - base + HALF) + least)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    box = (0, 0, src.shape[0], src.shape[1])
    resize_wide(src, dst, box, int(params["interpolation"]), scratch)


@kernel
def _run_box(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    resize_wide(src, dst, box_of(record), int(params["interpolation"]), scratch)


@kernel
def _run_signed(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    box = (0, 0, src.shape[0], src.shape[1])
    resize_within(src, dst, box, int(params["interpolation"]), scratch, SIGNED_LIMITS)


@kernel
def _run_signed_box(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    box = box_of(record)
    resize_within(src, dst, box, int(params["interpolation"]), scratch, SIGNED_LIMITS)


def plain_wide(part: np.ndarray, dst: np.ndarray, interpolation: int) -> None:
    """Resize an image of uint16 or int16 with NumPy."""
    if interpolation == NEAREST:
        dst[...] = plain_nearest(part, dst.shape[:2])
        return
    number, floats = filter_of(interpolation), part.astype(np.float32)
    made = plain_resample(floats, dst.shape[:2], number, plain_float_pass)
    low, most = SIGNED_LIMITS if dst.dtype == np.int16 else LIMITS
    dst[...] = np.floor(np.clip(made, low, most).astype(np.float64) + HALF)


def plain_resize(src: np.ndarray, dst: np.ndarray, interpolation: int) -> None:
    """Resize an image of any dtype with NumPy."""
    if src.dtype in (np.uint16, np.int16):
        plain_wide(src, dst, interpolation)
    else:
        plain_image(src, dst, (0, 0, *src.shape[:2]), interpolation)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    plain_wide(src, dst, int(params["interpolation"]))


def _plain_box(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    top, left, height, width = box_of(record)
    part = src[top : top + height, left : left + width]
    plain_wide(part, dst, int(params["interpolation"]))


WIDE_RESIZE: Final = {"image": Kernel(_run, _plain)}
"""The kernel of ops that resize a whole image."""
WIDE_BOX: Final = {"image": Kernel(_run_box, _plain_box)}
"""The kernel of ops that resize a box."""
SIGNED_RESIZE: Final = {"image": Kernel(_run_signed, _plain)}
SIGNED_BOX: Final = {"image": Kernel(_run_signed_box, _plain_box)}
"""Kernels of images of int16."""
