"""Blur with a box: every level becomes the mean of its window, with probability p. OpenCV's blur.

Draws: `stoker.ops.bases.blur`. The image is mirrored at its outermost pixel. With n pixels in the
window and their sum s the level is (2 s + n) // (2 n), exact: n is odd, so there are no ties.

Rows of the window are summed column by column, and the sums are updated as it moves down; sums
along a row are differences of running sums, except for windows of three. So the work does not grow
with the window.

For floats it is a filter along both axes (`stoker.ops.kernels.windows_floats`) with weights of
float32(1 / side), the middle one being 1 less all others, in float64; it uses no running sums,
whose errors would depend on pixels far away.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.blur import BlurOp, OddSpan, bordered, bordered_bytes, plain_shifts
from stoker.ops.bases.pixelwise import begin, plain_floats
from stoker.ops.bases.wide_floats import through_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import WholeRange
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import FLOAT
from stoker.ops.contract.states import State
from stoker.ops.kernels.resample import padded
from stoker.ops.kernels.windows_floats import plain_smooth_floats, smooth_bytes, smooth_floats

HALF: Final = np.float32(0.5)


@kernel
def add_line(image: Any, at: Any, sums: Any) -> None:
    """Add a line's levels, from index `at` on, to the sums of its columns."""
    for j in range(np.uint64(sums.size)):
        sums[j] = np.uint16(sums[j] + image[at + j])


@kernel
def swap_line(image: Any, add: Any, drop: Any, sums: Any) -> None:
    """Add the line at index `add` and subtract the one at index `drop`."""
    for j in range(np.uint64(sums.size)):
        sums[j] = np.uint16(sums[j] + image[add + j] - image[drop + j])


@kernel
def run_up(sums: Any, channels: int, totals: Any) -> None:
    """Write running sums of each channel; `totals` begins with a pixel of zeros."""
    step = np.uint64(channels)
    for j in range(step):
        totals[j] = 0
    for j in range(np.uint64(sums.size)):
        totals[j + step] = np.uint32(totals[j] + sums[j])


@kernel
def mean(total: Any, inverse: Any) -> Any:
    """Return an int32 sum times the inverse of its count, rounded.

    Sums are below 2**20 and exact as float32. A mean is at least 1 / 7938 away from a half and the
    float32 result has an error below 1 / 20000, so the rounding is exact.
    """
    return np.uint8(np.int32(np.float32(np.float32(total) * inverse) + HALF))


@kernel
def store_threes(sums: Any, step: Any, inverse: Any, image: Any, at: Any, count: Any) -> None:
    """Write the means of `count` windows of three columns, `step` values apart."""
    for j in range(count):
        k = j + step
        total = np.int32(np.int32(sums[j]) + np.int32(sums[k]) + np.int32(sums[k + step]))
        image[at + j] = mean(total, inverse)


@kernel
def store_means(totals: Any, reach: Any, inverse: Any, image: Any, at: Any, count: Any) -> None:
    """Write the means of `count` windows, from running sums `reach` values apart."""
    for j in range(count):
        total = np.int32(np.uint32(totals[j + reach] - totals[j]))
        image[at + j] = mean(total, inverse)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    size = int(record["size"])
    if not record["apply"] or size == 1:
        begin(src, dst)
        return
    height, width, channels = src.shape
    radius = size // 2
    count = (width + 2 * radius) * channels
    at = bordered_bytes(height, width, channels, radius)
    image = bordered(src, radius, 1, scratch)
    sums = scratch[at : at + 2 * count].view(np.uint16)
    at += padded(2 * count)
    totals = scratch[at : at + 4 * (count + channels)].view(np.uint32)
    result, stride = dst.reshape(dst.size), np.uint64(width * channels)
    inverse = np.float32(1.0 / (size * size))
    sums[:] = 0
    for y in range(size):
        add_line(image, np.uint64(y * count), sums)
    for y in range(height):
        if y > 0:
            swap_line(image, np.uint64((y + size - 1) * count), np.uint64((y - 1) * count), sums)
        to = np.uint64(y) * stride
        if size == 3:
            store_threes(sums, np.uint64(channels), inverse, result, to, stride)
        else:
            run_up(sums, channels, totals)
            store_means(totals, np.uint64(size * channels), inverse, result, to, stride)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        window = plain_shifts(src, int(record["size"]), "reflect")
        count = len(window)
        dst[...] = (2 * window.sum(0, np.int64) + count) // (2 * count)


@kernel
def fill_box(size: int, weights: Any) -> None:
    """Write the weights of distances 0, 1, ..., float32, for images of floats."""
    weights[:] = 1.0 / size
    if size > 1:
        weights[0] = 1.0 - (size - 1) * np.float64(weights[1])


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    size = int(record["size"])
    if record["apply"] and size > 1:
        end = 4 * (size // 2 + 1)
        weights = scratch[:end].view(np.float32)
        fill_box(size, weights)
        smooth_floats(src, dst, weights, scratch[padded(end) :])
    else:
        begin(src, dst)


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    size = int(record["size"])
    weights = np.zeros(size // 2 + 1, np.float32)
    fill_box(size, weights)
    return plain_smooth_floats(image, weights) if size > 1 else image


@register
class BoxBlur(BlurOp):
    """Blur with a box; parameters as `BlurOp`."""

    size_range: Annotated[WholeRange, OddSpan(1, 63), "side of the window, in pixels"] = (3, 7)

    examples = ({"p": 0.9}, {"size_range": (1, 31), "p": 0.5})
    picture = {"size_range": (7, 7)}
    kernels = {"image": Kernel(_run, _plain)}
    floats = {"image": Kernel(_run_floats, _plain_floats)}
    wide = through_floats(floats["image"])

    def scratch(self, state: State) -> int:
        """Return the bytes of the image with its border, a line of sums and of running sums."""
        radius, (_, width, channels) = self.size_range[1] // 2, state.bound
        if state.dtype == FLOAT:
            return padded(4 * (radius + 1)) + smooth_bytes(width, channels, radius)
        count = (width + 2 * radius) * channels
        return self.border(state) + padded(2 * count) + 4 * (count + channels)


box_blur = function(BoxBlur)
