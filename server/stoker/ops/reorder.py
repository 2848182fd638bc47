"""Reorder the pixels of an image: flips, the transposition and quarter turns, by one kernel.

Output pixel (y, x) is source pixel first + y * step_y + x * step_x of the flattened image. Where a
step along the row is one pixel, whole rows are copied; else the output is walked in tiles, so that
a turned image, too, is read and written by cache lines.
"""

from typing import Any, Final

import numpy as np

from stoker.ops.contract import State
from stoker.rng.jit import kernel

TILE: Final = 32
K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)


@kernel
def reorder(src: Any, dst: Any, size: Any, channels: int, walk: Any) -> None:
    """Write every pixel of an image to its new place.

    Args:
        src: flat image of any dtype.
        dst: flat image of the same dtype.
        size: (height, width) of the output, in pixels.
        channels: values of one pixel.
        walk: (first, step_y, step_x): source pixel of output (0, 0), and what the next row and the
            next column add to it.
    """
    height, width = size
    first, step_y, step_x = walk
    if step_x == 1:
        for y in range(height):
            copy_run(
                src, (first + y * step_y) * channels, dst, y * width * channels, width * channels
            )
        return
    for top in range(0, height, TILE):
        for left in range(0, width, TILE):
            count = min(TILE, width - left)
            for y in range(top, min(top + TILE, height)):
                at = first + y * step_y + left * step_x
                to = np.uint64((y * width + left) * channels)
                if channels == 1:
                    walk1(src, at, step_x, dst, to, count)
                elif channels == 3:
                    walk3(src, 3 * at, 3 * step_x, dst, to, count)
                else:
                    walk_many(src, at, step_x, dst, to, count, channels)


@kernel
def copy_run(src: Any, at: int, dst: Any, to: int, count: int) -> None:
    """Copy values that lie side by side."""
    a, b = np.uint64(at), np.uint64(to)
    for i in range(np.uint64(count)):
        dst[b + i] = src[a + i]


@kernel
def walk1(src: Any, at: int, step: int, dst: Any, to: Any, count: int) -> None:
    """Write pixels of one value."""
    for x in range(count):
        dst[to + np.uint64(x)] = src[np.uint64(at + x * step)]


@kernel
def walk3(src: Any, at: int, step: int, dst: Any, to: Any, count: int) -> None:
    """Write pixels of three values; `at` and `step` count values."""
    for x in range(count):
        a, b = np.uint64(at + x * step), to + K3 * np.uint64(x)
        dst[b] = src[a]
        dst[b + K1] = src[a + K1]
        dst[b + K2] = src[a + K2]


@kernel
def walk_many(src: Any, at: int, step: int, dst: Any, to: Any, count: int, channels: int) -> None:
    """Write pixels of any number of values."""
    for x in range(count):
        a, b = np.uint64((at + x * step) * channels), to + np.uint64(x * channels)
        for c in range(np.uint64(channels)):
            dst[b + c] = src[a + c]


@kernel
def turned(height: int, width: int, quarters: int) -> Any:
    """Return output size and walk of an image turned counter-clockwise, as `numpy.rot90`."""
    if quarters == 1:
        return (width, height), (width - 1, -1, width)
    if quarters == 2:
        return (height, width), (height * width - 1, -width, -1)
    if quarters == 3:
        return (width, height), ((height - 1) * width, 1, -width)
    return (height, width), (0, width, 1)


def swapped(state: State, kept: bool, swaps: bool) -> State:
    """Return the state of a value whose sides are swapped in some rows or in all.

    Args:
        state: what goes in.
        kept: whether there are rows whose sides stay.
        swaps: whether there are rows whose sides are swapped.
    """
    if not swaps:
        return state
    height, width = state.shape[:2]
    tall, wide = state.bound[:2]
    if not kept:
        return state.resized(width, height, (wide, tall))
    if height is not None and height == width:
        return state
    most = max(tall, wide)
    return state.resized(None, None, (most, most))
