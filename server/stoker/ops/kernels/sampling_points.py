"""Sample a row of an image at positions in memory, one for each pixel.

Positions are `kernels.warp`'s: places in the source in units of 2**-24 pixels, or -1 across for
a pixel that has none and is filled. For warps whose positions are not on a line.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.cut import fill_run
from stoker.ops.kernels.float_levels import settle
from stoker.ops.kernels.pixels import pick3
from stoker.ops.kernels.warp import BITS, is_inner, mix_at, sample

ONE: Final = np.uint64(1)


@kernel
def sample_row(src: Any, dst: Any, y: int, places: Any, bilinear: int, fill: Any) -> None:
    """Write one row.

    Args:
        src: `(H, W, C)` of any dtype, contiguous; uint8, uint16 or float32 for bilinear.
        dst: `(h, w, C)` of the same dtype, contiguous.
        y: the row of `dst`.
        places: (across, down): positions inside of the source, `(w,) int64` each, or -1 across;
            overwritten.
        bilinear: 1, or 0 for nearest.
        fill: at least C values.
    """
    across, down = places
    height, width, channels = src.shape
    image, result = src.reshape(src.size), dst.reshape(dst.size)
    first, to = 0, y * dst.shape[1] * channels
    while first < dst.shape[1]:
        end = run_end(across, first)
        if across[first] < 0:
            fill_run(result, to + first * channels, end - first, channels, fill)
        elif bilinear == 0 and channels in (1, 3):
            pick_places(image, (width, channels), places, (first, end), result, to)
        elif channels == 3:
            mix_places(image, (height, width), places, (first, end), result, to)
        else:
            for x in range(first, end):
                at = np.uint64(to + x * channels)
                sample(image, src.shape, across[x], down[x], bilinear, result, at)
        first = end
    if bilinear == 1:
        settle(result, np.uint64(to), np.uint64(dst.shape[1] * channels))


@kernel
def run_end(across: Any, first: int) -> Any:
    """Return the end of a run of pixels that have positions, or of pixels that have none."""
    inside, start, end = across[first] >= 0, np.uint64(first), np.uint64(len(across))
    if inside:
        # Pixels with positions are adjacent, up to rounding: count rather than search.
        while across[end - ONE] < 0:
            end -= ONE
        gaps = 0
        for x in range(start, end):
            gaps += 1 if across[x] < 0 else 0
        if gaps == 0:
            return np.int64(end)
    for x in range(start, end):
        if (across[x] >= 0) != inside:
            return np.int64(x)
    return np.int64(end)


@kernel
def pick_places(image: Any, size: Any, places: Any, run: Any, result: Any, to: int) -> None:
    """Write the nearest pixels of one channel or three; `places` are overwritten.

    `size` is (width, channels) of the source; the rest is as in `mix_places`.
    """
    width, channels = size
    across, down = places
    first, end = np.uint64(run[0]), np.uint64(run[1])
    for x in range(first, end):
        down[x] = (down[x] >> BITS) * width + (across[x] >> BITS)
    pick_run(image, down, run, channels, result, to)


@kernel
def pick_row(image: Any, at: Any, fill: Any, channels: int, result: Any, to: int) -> None:
    """Write a row of pixels of one channel or three.

    Args:
        image: flat source.
        at: `(w,) int64`: the pixel of the source, counted row by row, or -1.
        fill: values for -1; at least as many as channels.
        channels: 1 or 3.
        result: flat, of the same dtype.
        to: index of the row's first value.
    """
    first = 0
    while first < len(at):
        end = run_end(at, first)
        if at[first] < 0:
            fill_run(result, to + first * channels, end - first, channels, fill)
        else:
            pick_run(image, at, (first, end), channels, result, to)
        first = end


@kernel
def pick_run(image: Any, at: Any, run: Any, channels: int, result: Any, to: int) -> None:
    """Write the pixels of `run` = (first, end), which all have a place; see `pick_row`."""
    first, end = np.uint64(run[0]), np.uint64(run[1])
    if channels == 1:
        for x in range(first, end):
            result[np.uint64(to) + x] = image[np.uint64(at[x])]
    else:
        for x in range(first, end):
            pick3(image, 3 * at[x], result, to + 3 * np.int64(x))


@kernel
def mix_places(image: Any, size: Any, places: Any, run: Any, result: Any, to: int) -> None:
    """Write mixed pixels of three channels.

    Args:
        image: flat source.
        size: (height, width) of the source.
        places: (horizontal, vertical) positions of a row.
        run: (first, end) of the pixels to write.
        result: flat, of the same dtype.
        to: index of the row's first value.
    """
    height, width = size
    across, down = places
    last = np.uint64(len(across) - 1)
    for x in range(np.uint64(run[0]), np.uint64(run[1])):
        px, py, at = across[x], down[x], to + 3 * np.int64(x)
        if is_inner(px, py, height, width) and x < last:
            mix_at(image, width, px, py, result, at)
        else:
            sample(image, (height, width, 3), px, py, 1, result, np.uint64(at))
