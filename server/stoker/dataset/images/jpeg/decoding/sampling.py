"""Upsampling of chroma, a row at a time.

Full and half resolution are libjpeg's: "fancy" upsampling weighs the nearer sample 3/4 and the next
1/4, in each direction of half resolution. Other ratios, and components of at most two samples
across, repeat samples. The first and last samples of a row are repeated beyond its ends
(`repeat_edges`), and the first and last rows of a component beyond its height.
"""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.decoding.sizes import PAD
from stoker.dataset.images.jpeg.splice import LEAST_WIDTH
from stoker.jit import kernel

BLOCK: Final = 16
"""Samples that `widen` takes at once; it reads and writes whole blocks."""
SAME, WIDER, WIDER_TALLER, TALLER, REPEATED = range(5)


@kernel
def sampling_of(across: Any, down: Any, width: Any, side: Any) -> Any:
    """Return how a component is upsampled: by factors across and down, from `width` samples.

    libjpeg does not smooth where the blocks of luma have one sample (`side`).
    """
    if across == 1 and down == 1:
        return SAME
    if side == 1:
        return REPEATED
    if across == 1 and down == 2:
        return TALLER
    if across == 2 and down <= 2 and width >= LEAST_WIDTH:
        return WIDER if down == 1 else WIDER_TALLER
    return REPEATED


@kernel
def repeat_edges(planes: Any, at: Any, stride: Any, rows: Any, first: Any, last: Any) -> None:
    """Repeat the first and last samples of some rows outside of them.

    Args:
        planes: flat uint8.
        at: place of the first row's first sample in memory.
        stride: bytes from row to row.
        rows: how many.
        first: number of the row's first sample, -1 if it is not in memory.
        last: number of its last sample, -1 if it is not in memory.
    """
    for y in range(rows):
        row = at + y * stride
        if first >= 0:
            planes[np.uint64(row + first - 1)] = planes[np.uint64(row + first)]
        if last >= 0:
            planes[np.uint64(row + last + 1)] = planes[np.uint64(row + last)]


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.color:widen")
def widen(planes: Any, near: Any, far: Any, to: Any, blocks: Any, rounding: Any) -> None:
    """Double the samples of a row: 3/4 of the nearer, 1/4 of the next, in both directions.

    Args:
        planes: flat uint8; reads a sample before and one after the blocks.
        near: place of the row with weight 3/4.
        far: place of the row with weight 1/4; `near` if there is one row only.
        to: place of the result, 32 levels for each block.
        blocks: of 16 samples, at least 1.
        rounding: (what is added for even levels, for odd ones), in units of 1/16.
    """
    count = blocks * BLOCK
    rows = [planes[at - 1 : at + count + 1].astype(np.int32) for at in (near, far)]
    sums = 3 * rows[0] + rows[1]
    target = planes[to : to + 2 * count]
    target[0::2] = (3 * sums[1:-1] + sums[:-2] + rounding[0]) >> 4
    target[1::2] = (3 * sums[1:-1] + sums[2:] + rounding[1]) >> 4


@kernel
def mix_rows(planes: Any, near: Any, far: Any, to: Any, count: Any, rounding: Any) -> None:
    """Weigh two rows 3/4 and 1/4; `rounding` is in units of 1/4."""
    for x in range(np.uint64(count)):
        a, b = np.uint16(planes[np.uint64(near) + x]), np.uint16(planes[np.uint64(far) + x])
        total = np.uint16(np.uint16(a * np.uint16(3)) + np.uint16(b + np.uint16(rounding)))
        planes[np.uint64(to) + x] = np.uint8(total >> np.uint16(2))


@kernel
def repeat_samples(planes: Any, at: Any, first: Any, across: Any, to: Any, count: Any) -> None:
    """Repeat samples of the row at a place: `count` levels, from level `first` on."""
    for x in range(count):
        planes[np.uint64(to + x)] = planes[np.uint64(at + (first + x) // across)]


@kernel
def upsample(planes: Any, sampling: Any, ratio: Any, rows: Any, span: Any, to: Any) -> Any:
    """Upsample what a row of pixels needs of a component; return the place of its first level.

    Args:
        planes: flat uint8.
        sampling: from `sampling_of`.
        ratio: (factor across, whether `far` is below).
        rows: places of sample 0 in (the nearest row, the next one).
        span: (first pixel, pixels).
        to: room for the result: pixels + 64 bytes.
    """
    across, below = ratio
    near, far = rows
    left, count = span
    if sampling == SAME:
        return near + left
    if sampling == TALLER:
        mix_rows(planes, near + left, far + left, to, count, 2 if below else 1)
        return to
    if sampling == REPEATED:
        repeat_samples(planes, near, left, across, to, count)
        return to
    first = left // 2
    blocks = ((left + count - 1) // 2 - first) // BLOCK + 1
    if sampling == WIDER:
        widen(planes, near + first, near + first, to, blocks, (4, 8))
    else:
        widen(planes, near + first, far + first, to, blocks, (8, 7))
    return to + left % 2


assert PAD >= 2 * BLOCK
