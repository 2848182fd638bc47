"""Make images of three channels, red, green and blue. No randomness.

Gray is repeated, as in Pillow's `Image.convert("RGB")`; red, green and blue are copied. A last
channel after one or three is alpha and is dropped. Values of floats keep their bits.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.color.grayscale import fill_pixel
from stoker.ops.color.to_gray import of_channels
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import ALPHA, LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.color import K1, K2, K3
from stoker.ops.kernels.runs import copy_run

K4: Final = np.uint64(4)


@kernel
def repeat_each(grays: Any, image: Any) -> None:
    """Write each value three times."""
    for i in range(np.uint64(grays.size)):
        fill_pixel(image, K3 * i, grays[i])


@kernel
def repeat_first(pairs: Any, image: Any) -> None:
    """Write the first of every two values three times."""
    for i in range(np.uint64(pairs.size // 2)):
        fill_pixel(image, K3 * i, pairs[K2 * i])


@kernel
def leave_fourth(source: Any, image: Any) -> None:
    """Write the first three of every four levels."""
    for i in range(np.uint64(image.size // 3)):
        for c in range(K3):
            image[K3 * i + c] = source[K4 * i + c]


@kernel
def leave_fourth_at_once(source: Any, image: Any) -> None:
    """Write the first three of every four values: all four, and the next pixel overwrites one."""
    last = np.uint64(image.size // 3 - 1)
    for i in range(last):
        k, j = K3 * i, K4 * i
        a, b, c, d = source[j], source[j + K1], source[j + K2], source[j + K3]
        image[k] = a
        image[k + K1] = b
        image[k + K2] = c
        image[k + K3] = d
    for c in range(K3):
        image[K3 * last + c] = source[K4 * last + c]


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    source, image = src.reshape(src.size), dst.reshape(dst.size)
    if src.shape[2] == 1:
        repeat_each(source, image)
    elif src.shape[2] == 2:
        repeat_first(source, image)
    elif src.shape[2] == 3:
        copy_run(source, 0, image, 0, source.size)
    elif src.itemsize == 1:
        leave_fourth(source, image)
    else:
        leave_fourth_at_once(source, image)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src[..., :1] if src.shape[2] < 3 else src[..., :3]


@register
class ToRgb(Op):
    """Turn images of 1 to 4 channels into images of three."""

    image_dtypes = LEVELS_FLOATS
    image_channels = ALPHA
    of_levels = True
    varied = {}
    kernels = {"image": Kernel(_run, _plain)}
    floats = {"image": Kernel(_run, _plain)}
    rescale = staticmethod(keep_record)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states of three channels."""
        self.require_pixels(states)
        return tuple(of_channels(state, 3) for state in states), 0


to_rgb = function(ToRgb)
