"""Make images of one channel: the gray level of each pixel. No randomness.

Gray is Pillow's luma, as in `Image.convert("L")`, of uint16 too (`stoker.ops.kernels.color`); for
floats `kernels.color_floats`, where nothing is clipped. A last channel after one or three is alpha
and is dropped. `grayscale` makes an image gray but keeps its channels.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import ALPHA, LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.color import K1, K2, K3, luma, plain_luma, write_luma
from stoker.ops.kernels.color_floats import gray_of, plain_gray
from stoker.ops.kernels.float_levels import number, plain_number

BLOCK: Final = np.uint64(256)
"""Pixels of four floats at a time. With 512, pairs of the planes of a block would be 4 KiB apart,
which processors treat as one place."""
HALF: Final = np.uint64(32)
PLANES_BYTES: Final = 3 * 4 * 256
K0: Final = np.uint64(0)
K4: Final = np.uint64(4)
LEVEL: Final = np.int32(255)
BITS: Final = np.int32(8)


@kernel
def write_luma_of_words(words: Any, grays: Any) -> None:
    """Write the gray of each pixel of four levels, as a word: loads without gaps are vectorized."""
    for i in range(np.uint64(grays.size)):
        word = np.int32(words[i])
        green, blue = np.int32(word >> BITS), np.int32(word >> np.int32(BITS + BITS))
        grays[i] = np.uint8(luma(word & LEVEL, green & LEVEL, blue & LEVEL))


@kernel
def write_luma_of_four(levels: Any, grays: Any) -> None:
    """Write the gray of each pixel of four levels of any dtype."""
    for i in range(np.uint64(grays.size)):
        k = K4 * i
        grays[i] = luma(levels[k], levels[k + K1], levels[k + K2])


@kernel
def write_gray(image: Any, grays: Any) -> None:
    """Write the gray of each pixel of three floats; the literal step lets it be vectorized."""
    for i in range(np.uint64(grays.size)):
        k = K3 * i
        grays[i] = number(gray_of(image[k], image[k + K1], image[k + K2]))


@kernel
def write_gray_of_words(words: Any, grays: Any, planes: Any) -> None:
    """Write the gray of each pixel of four floats, as two words: loads without gaps vectorize.

    Args:
        words: flat image, uint64.
        grays: output.
        planes: scratch for the colors of a block, uint32.
    """
    colors = planes.view(np.float32)
    for first in range(K0, np.uint64(grays.size), BLOCK):
        count = min(BLOCK, np.uint64(grays.size) - first)
        split_colors(words, first, count, planes)
        for i in range(count):
            red, green, blue = colors[i], colors[BLOCK + i], colors[BLOCK + BLOCK + i]
            grays[first + i] = number(gray_of(red, green, blue))


@kernel
def split_colors(words: Any, first: Any, count: Any, planes: Any) -> None:
    """Write the bits of a block's colors into separate planes."""
    for i in range(count):
        k = K2 * (first + i)
        left, right = words[k], words[k + K1]
        planes[i] = np.uint32(left)
        planes[BLOCK + i] = np.uint32(left >> HALF)
        planes[BLOCK + BLOCK + i] = np.uint32(right)


@kernel
def take_first(step: Any, image: Any, first: Any) -> None:
    """Write the first of every `step` values."""
    for i in range(np.uint64(first.size)):
        first[i] = image[step * i]


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image, grays = src.reshape(src.size), dst.reshape(dst.size)
    if src.shape[2] == 3:
        write_luma(image, grays)
    elif src.shape[2] == 4:
        write_luma_of_words(image.view(np.uint32), grays)
    else:
        take_first(np.uint64(src.shape[2]), image, grays)


@kernel
def _run_wide(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    levels, grays = src.reshape(src.size), dst.reshape(dst.size)
    if src.shape[2] == 3:
        write_luma(levels, grays)
    elif src.shape[2] == 4:
        write_luma_of_four(levels, grays)
    else:
        take_first(np.uint64(src.shape[2]), levels, grays)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src[..., :1] if src.shape[2] < 3 else plain_luma(src[..., :3].astype(np.int64))


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image, grays = src.reshape(src.size), dst.reshape(dst.size)
    if src.shape[2] == 3:
        write_gray(image, grays)
    elif src.shape[2] == 4:
        write_gray_of_words(image.view(np.uint64), grays, scratch[:PLANES_BYTES].view(np.uint32))
    else:
        take_first(np.uint64(src.shape[2]), image, grays)


def _plain_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    with np.errstate(all="ignore"):
        dst[...] = src[..., :1] if src.shape[2] < 3 else plain_number(plain_gray(src[..., :3]))


@register
class ToGray(Op):
    """Turn images of 1 to 4 channels into gray images of one."""

    image_dtypes = LEVELS_FLOATS
    image_channels = ALPHA
    of_levels = True
    kernels = {"image": Kernel(_run, _plain)}
    floats = {"image": Kernel(_run_floats, _plain_floats)}
    wide = {"image": Kernel(_run_wide, _plain)}
    rescale = staticmethod(keep_record)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of one channel."""
        self.require_pixels(states)
        split = any(state.dtype == "float32" and state.shape[2] == 4 for state in states)
        return tuple(of_channels(state, 1) for state in states), PLANES_BYTES * split


def of_channels(state: State, channels: int) -> State:
    """Return the state of an image with another number of channels."""
    return State(
        state.kind, state.dtype, (*state.shape[:2], channels), (*state.bound[:2], channels)
    )


to_gray = function(ToGray)
