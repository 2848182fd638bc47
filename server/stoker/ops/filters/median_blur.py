"""Replace every level by the median of its window, with probability p: OpenCV's medianBlur.

Draws: `stoker.ops.bases.blur`. The outermost pixels are repeated beyond the edges.

A window of 3 sorts each column of three once, for the three windows that contain it: the median of
all nine is the median of (maximum of the lows, median of the middles, minimum of the highs).
Windows of 5: `kernels.median_five`. Larger windows find the median's bits from the highest on: a
bit is set if more than half of the window is at least the number with that bit. Counts fit a byte
up to a side of 15. All walk along rows, many levels at a time. Floats:
`stoker.ops.kernels.median_floats`.
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
from stoker.ops.kernels.float_levels import plain_floats as floats_of_keys
from stoker.ops.kernels.float_levels import plain_keys
from stoker.ops.kernels.median_five import middle, sort_fives, store_fives
from stoker.ops.kernels.median_floats import are_keys, median_keys, read_keys, write_keys
from stoker.ops.kernels.resample import padded
from stoker.ops.kernels.runs import copy_run

NONE: Final = np.uint8(0)
ONE: Final = np.uint8(1)
PART: Final = 768
"""Floats of a row that are done in all rows before the next ones, to keep their data in cache."""


@kernel
def sort_columns(image: Any, at: Any, stride: Any, lines: Any, n: Any) -> None:
    """Sort the three levels of `n` columns, from index `at` on, into (low, mid, high)."""
    low, mid, high = lines
    for j in range(n):
        k = at + j
        a, b, c = image[k], image[k + stride], image[k + stride + stride]
        low[j] = min(a, b, c)
        mid[j] = middle(a, b, c)
        high[j] = max(a, b, c)


@kernel
def store_middles(low: Any, mid: Any, high: Any, step: Any, image: Any, at: Any, n: Any) -> None:
    """Write `n` medians of nine from sorted columns, `step` values apart."""
    for j in range(n):
        k, m = j + step, j + step + step
        most = max(low[j], low[k], low[m])
        least = min(high[j], high[k], high[m])
        image[at + j] = middle(most, middle(mid[j], mid[k], mid[m]), least)


@kernel
def count_from(image: Any, at: Any, levels: Any, bit: Any, counts: Any) -> None:
    """Count where the line from index `at` on is at least the level with the bit set."""
    for j in range(np.uint64(counts.size)):
        trial = np.uint8(levels[j] | bit)
        counts[j] = np.uint8(counts[j] + (ONE if image[at + j] >= trial else NONE))


@kernel
def count_five(image: Any, at: Any, step: Any, levels: Any, bit: Any, counts: Any) -> None:
    """Count as `count_from` does, in five lines that are `step` values apart."""
    b, c = at + step, at + step + step
    d, e = c + step, c + step + step
    for j in range(np.uint64(counts.size)):
        trial = np.uint8(levels[j] | bit)
        first = (ONE if image[at + j] >= trial else NONE) + (ONE if image[b + j] >= trial else NONE)
        last = (ONE if image[d + j] >= trial else NONE) + (ONE if image[e + j] >= trial else NONE)
        middle_one = ONE if image[c + j] >= trial else NONE
        counts[j] = np.uint8(counts[j] + first + last + middle_one)


@kernel
def keep_bit(counts: Any, half: Any, bit: Any, levels: Any) -> None:
    """Set the bit of a level if more than half of the window was counted; reset the counts."""
    for j in range(np.uint64(levels.size)):
        levels[j] = np.uint8(levels[j] | (bit if counts[j] > half else NONE))
        counts[j] = NONE


@kernel
def count_line(image: Any, at: int, size: int, step: int, bit: Any, lines: Any) -> None:
    """Count in one row of each window of a line; `lines` is (levels, counts)."""
    levels, counts = lines
    for x in range(0, size - 4, 5):
        first = np.uint64(at + x * step)
        count_five(image, first, np.uint64(step), levels, bit, counts)
    for x in range(size // 5 * 5, size):
        count_from(image, np.uint64(at + x * step), levels, bit, counts)


@kernel
def median_line(image: Any, at: int, size: int, steps: Any, lines: Any) -> None:
    """Write the medians of a line of windows to `lines[0]`.

    Args:
        image: the image with its border, flat.
        at: index of the first window's first level.
        size: side of the window.
        steps: (to a pixel, to a row), in values.
        lines: (levels, counts), each uint8, one value for each window.
    """
    step, stride = steps
    levels, counts = lines
    half = np.uint8(size * size // 2)
    levels[:] = 0
    counts[:] = 0
    for place in range(8):
        bit = np.uint8(128 >> place)
        for y in range(size):
            count_line(image, at + y * stride, size, step, bit, lines)
        keep_bit(counts, half, bit, levels)


@kernel
def line_of(scratch: Any, number: int, count: int) -> Any:
    """Return one of the lines of `count` values in scratch."""
    start = number * padded(count)
    return scratch[start : start + count]


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    size = int(record["size"])
    if not record["apply"] or size == 1:
        begin(src, dst)
        return
    height, width, channels = src.shape
    radius, count = size // 2, width * channels
    stride = count + 2 * radius * channels
    image = bordered(src, radius, 0, scratch)
    rest = scratch[bordered_bytes(height, width, channels, radius) :]
    result = dst.reshape(dst.size)
    step, row = np.uint64(channels), np.uint64(stride)
    if size == 3:
        low, mid, high = (
            line_of(rest, 0, stride),
            line_of(rest, 1, stride),
            line_of(rest, 2, stride),
        )
        for y in range(height):
            sort_columns(image, np.uint64(y * stride), row, (low, mid, high), row)
            store_middles(low, mid, high, step, result, np.uint64(y * count), np.uint64(count))
    elif size == 5:
        fives = (
            line_of(rest, 0, stride),
            line_of(rest, 1, stride),
            line_of(rest, 2, stride),
            line_of(rest, 3, stride),
            line_of(rest, 4, stride),
        )
        for y in range(height):
            sort_fives(image, np.uint64(y * stride), row, fives, row)
            store_fives(fives, step, result, np.uint64(y * count), np.uint64(count))
    else:
        lines = (line_of(rest, 0, count), line_of(rest, 1, count))
        for y in range(height):
            median_line(image, y * stride, size, (channels, stride), lines)
            copy_run(lines[0], 0, result, y * count, count)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        dst[...] = np.median(plain_shifts(src, int(record["size"]), "edge"), 0)


@kernel
def keys_of_line(scratch: Any, number: int, count: int) -> Any:
    """Return one of the lines of `count` keys in scratch."""
    return line_of(scratch, number, 4 * count).view(np.int32)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    size = int(record["size"])
    if not record["apply"] or size == 1:
        begin(src, dst)
        return
    height, width, channels = src.shape
    radius, count = size // 2, width * channels
    stride = count + 2 * radius * channels
    floats = bordered(src, radius, 0, scratch)
    image = scratch[: 4 * floats.size].view(np.int32)
    same = are_keys(image)
    if not same:
        write_keys(floats, image)
    rest = scratch[bordered_bytes(height, width, 4 * channels, radius) :]
    result = dst.reshape(dst.size).view(np.int32)
    step, row = np.uint64(channels), np.uint64(stride)
    l0, l1, l2 = (
        keys_of_line(rest, 0, stride),
        keys_of_line(rest, 1, stride),
        keys_of_line(rest, 2, stride),
    )
    l3, l4 = keys_of_line(rest, 3, stride), keys_of_line(rest, 4, stride)
    for part in range(0, count, PART):
        n = np.uint64(min(PART, count - part))
        for y in range(height):
            first = y * stride + part
            at, to = np.uint64(first), np.uint64(y * count + part)
            if size == 3:
                sort_columns(image, at, row, (l0, l1, l2), n + step + step)
                store_middles(l0, l1, l2, step, result, to, n)
            elif size == 5:
                fives = (l0, l1, l2, l3, l4)
                sort_fives(image, at, row, fives, n + step + step + step + step)
                store_fives(fives, step, result, to, n)
            else:
                line = result[to : to + n]
                median_keys(image, first, size, (channels, stride), line, l0[:n])
    if not same:
        read_keys(result)


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    window = np.sort(plain_shifts(plain_keys(image), int(record["size"]), "edge"), 0)
    return floats_of_keys(window[len(window) // 2]) if len(window) > 1 else image


@register
class MedianBlur(BlurOp):
    """Replace every level by the median of its window; parameters as `BlurOp`."""

    size_range: Annotated[WholeRange, OddSpan(1, 15), "side of the window, in pixels"] = (3, 7)

    examples = ({"p": 0.9}, {"size_range": (1, 15), "p": 0.5})
    picture = {"size_range": (7, 7)}
    kernels = {"image": Kernel(_run, _plain)}
    floats = {"image": Kernel(_run_floats, _plain_floats)}
    wide = through_floats(floats["image"])

    def scratch(self, state: State) -> int:
        """Return the bytes of the image with its border and of five lines."""
        _, width, channels = state.bound
        count = (width + 2 * (self.size_range[1] // 2)) * channels
        if state.dtype == FLOAT:
            return self.border(state) + 5 * padded(4 * count)
        return self.border(state) + 5 * padded(count)


median_blur = function(MedianBlur)
