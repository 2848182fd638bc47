"""Sums over a square window with any weights that are symmetric about its center.

The weights of levels are integers with sum 2**24; of floats these times 2**-24, exact as float32.
Pixel n of the window and pixel `size * size - 1 - n` have the same weight, so they are added first.
The image is mirrored at its outermost pixel. Sums: `kernels.windows` and `kernels.windows_floats`.

The rule of an op is a kernel `window(record, scratch) -> (size, weights)`: it fills the weights at
the begin of scratch. It is called if the record's `apply` is 1; a window of one pixel changes none.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.blur import bordered, bordered_bytes, plain_shifts
from stoker.ops.bases.pixelwise import begin, plain_floats
from stoker.ops.contract.kernel_forms import Kernel, no_draw
from stoker.ops.contract.rules import FLOAT
from stoker.ops.contract.states import State
from stoker.ops.contract.templates import adapted
from stoker.ops.kernels.float_levels import plain_number
from stoker.ops.kernels.resample import padded
from stoker.ops.kernels.windows import HALF24, add_pair, begin_sums, store_levels
from stoker.ops.kernels.windows_floats import weigh

WHOLE: Final = 1 << 24
"""Sum of all weights."""
PART: Final = np.float32(1 / WHOLE)
LARGEST: Final = 63
"""Maximum side of a window."""
Window = Callable[[Any, Any], Any]
rule: Any = no_draw
"""The window of the op, in the templates."""


@kernel
def window_weights(size: int, scratch: Any) -> Any:
    """Return room for the weights of a window, `(size * size,) int64`, at the begin of scratch."""
    return scratch[: 8 * size * size].view(np.int64)


@kernel
def sum_levels(src: Any, dst: Any, size: int, weights: Any, scratch: Any) -> None:
    """Write the weighted sums of an image of levels.

    Args:
        src: `(H, W, C) uint8`.
        dst: the same shape, not overlapping `src`.
        size: side of the window, odd.
        weights: from `window_weights` of the same scratch.
        scratch: at least `weighted_bytes` bytes.
    """
    height, width, channels = src.shape
    radius, count = size // 2, width * channels
    stride, middle = count + 2 * radius * channels, size * size // 2
    rest = scratch[padded(8 * size * size) :]
    image = bordered(src, radius, 1, rest)
    start = bordered_bytes(height, width, channels, radius)
    sums = rest[start : start + 4 * count].view(np.uint32)
    result = dst.reshape(dst.size)
    for y in range(height):
        center = (y + radius) * stride + radius * channels
        begin_sums(image, np.uint64(center), np.uint32(weights[middle]), HALF24, sums)
        for n in range(middle):
            if weights[n] > 0:
                away = (radius - n // size) * stride + (radius - n % size) * channels
                a, b = np.uint64(center - away), np.uint64(center + away)
                add_pair(image, a, b, np.uint32(weights[n]), sums)
        store_levels(sums, result, np.uint64(y * count))


@kernel
def sum_floats(src: Any, dst: Any, size: int, weights: Any, scratch: Any) -> None:
    """Write the weighted sums of an image of floats; see `sum_levels`."""
    height, width, channels = src.shape
    radius, count = size // 2, width * channels
    stride, middle = count + 2 * radius * channels, size * size // 2
    at = padded(8 * size * size)
    places = scratch[at : 2 * at].view(np.int64)[: size * size]
    parts = scratch[2 * at : 2 * at + 4 * (middle + 1)].view(np.float32)
    image = bordered(src, radius, 1, scratch[2 * at + padded(4 * (middle + 1)) :])
    places[0], parts[0] = radius * stride + radius * channels, np.float32(weights[middle]) * PART
    pairs = 0
    for n in range(middle):
        if weights[n] > 0:
            pairs += 1
            away = (radius - n // size) * stride + (radius - n % size) * channels
            places[2 * pairs - 1], places[2 * pairs] = places[0] - away, places[0] + away
            parts[pairs] = np.float32(weights[n]) * PART
    result = dst.reshape(dst.size)
    for y in range(height):
        weigh(image, places, parts, pairs, result, y * count, count)
        for i in range(2 * pairs + 1):
            places[i] += stride


@kernel
def _levels(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if record["apply"]:
        size, weights = rule(record, scratch)
        if size > 1:
            sum_levels(src, dst, size, weights, scratch)
            return
    begin(src, dst)


@kernel
def _floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if record["apply"]:
        size, weights = rule(record, scratch)
        if size > 1:
            sum_floats(src, dst, size, weights, scratch)
            return
    begin(src, dst)


def weighted_levels(window: Window) -> Kernel:
    """Return the kernel of images of levels."""

    def plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
        dst[...] = plain_levels(src, *plain_window(window, record)) if record["apply"] else src

    return Kernel(adapted(_levels, window), plain)


def weighted_floats(window: Window) -> Kernel:
    """Return the kernel of images of floats."""

    @plain_floats
    def plain(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
        size, weights = plain_window(window, record)
        return image if size == 1 else plain_sum_floats(image, size, weights)

    return Kernel(adapted(_floats, window), plain)


def plain_window(window: Window, record: Any) -> tuple[int, np.ndarray]:
    """Return side and weights of a record's window."""
    size, weights = window(record, np.zeros(8 * LARGEST * LARGEST, np.uint8))
    return size, weights


def weighted_bytes(state: State, size: int) -> int:
    """Return the scratch bytes for images up to the state's bound and windows up to `size`."""
    height, width, channels = state.bound
    weights = int(padded(8 * size * size))
    if state.dtype == FLOAT:
        parts = int(padded(4 * (size * size // 2 + 1)))
        return 2 * weights + parts + bordered_bytes(height, width, 4 * channels, size // 2)
    return weights + bordered_bytes(height, width, channels, size // 2) + 4 * width * channels


def plain_levels(src: np.ndarray, size: int, weights: np.ndarray) -> np.ndarray:
    """Return the weighted sums of an image of levels, with NumPy."""
    window = plain_shifts(src, size, "reflect").astype(np.int64)
    levels: np.ndarray = (np.tensordot(weights, window, 1) + WHOLE // 2) // WHOLE
    return levels


def plain_sum_floats(image: np.ndarray, size: int, weights: np.ndarray) -> np.ndarray:
    """Return the weighted sums of an image of floats, with NumPy."""
    window, parts = plain_shifts(image, size, "reflect"), weights.astype(np.float32) * PART
    middle = size * size // 2
    total = parts[middle] * window[middle]
    for n in np.flatnonzero(weights[:middle]):
        total = total + parts[n] * (window[n] + window[-1 - n])
    return plain_number(total)
