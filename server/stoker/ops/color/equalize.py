"""Spread the levels of each channel evenly, with probability p: Pillow's ImageOps.equalize.

With the channel's histogram h and its maximum level m, step = (pixels - h[m]) // 255; level x
becomes min((step // 2 + pixels below x) // step, 255). A step of 0 changes nothing.
"""

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import LEVELS, ByChance, begin, look_up
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State


@kernel
def count_levels(image: Any, channel: int, channels: int, counts: Any) -> None:
    """Write the histogram of one channel of a flat image into 256 int64."""
    for x in range(LEVELS):
        counts[x] = 0
    step, base = np.uint64(channels), np.uint64(channel)
    for i in range(np.uint64(image.size // channels)):
        counts[np.uint64(image[step * i + base])] += 1


@kernel
def fill_even(counts: Any, pixels: int, table: Any, at: int) -> None:
    """Write the 256 new levels of a histogram to `table[at:]`."""
    most = LEVELS - 1
    while counts[most] == 0:
        most -= 1
    step = (pixels - counts[most]) // 255
    total = step // 2
    for x in range(LEVELS):
        table[at + x] = min(total // step, 255) if step > 0 else x
        total += counts[x]


@kernel
def spread_levels(image: Any, channels: int, scratch: Any) -> None:
    """Spread the levels of each channel of a flat image evenly, in place."""
    counts = scratch[: 8 * LEVELS].view(np.int64)
    tables = scratch[8 * LEVELS :]
    for c in range(channels):
        count_levels(image, c, channels, counts)
        fill_even(counts, image.size // channels, tables, c * LEVELS)
    look_up(image, tables, channels)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        spread_levels(image, src.shape[2], scratch)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    for c in range(src.shape[2] if record["apply"] else 0):
        counts = np.bincount(src[..., c].ravel(), minlength=LEVELS)
        step = int(src[..., c].size - counts[src[..., c].max()]) // 255
        if step:
            below = np.cumsum(counts) - counts
            dst[..., c] = np.minimum((step // 2 + below) // step, 255)[src[..., c]]


@register
class Equalize(ByChance):
    """Spread the levels of each channel evenly."""

    of_levels = True
    clips_floats = True
    kernels = {"image": Kernel(_run, _plain, in_place=True)}

    def scratch(self, state: State) -> int:
        """Return the bytes of one histogram and a table for each channel."""
        return 8 * LEVELS + LEVELS * state.bound[2]


equalize = function(Equalize)
