"""Cut a window out of an image; what lies outside of the image is filled.

Output pixel (y, x) is source pixel (y + top, x + left), or the fill. The window may begin at
negative positions, be larger than the image, or miss it.
"""

from typing import Any

import numpy as np

from stoker.ops.contract import State, StateError
from stoker.rng.jit import kernel


@kernel
def cut(src: Any, dst: Any, top: int, left: int, fill: Any) -> None:
    """Cut the window of `dst`'s size at (top, left).

    Args:
        src: `(H, W, C)` of any dtype, contiguous.
        dst: `(h, w, C)` of the same dtype, contiguous.
        top: first row of the window, in source pixels.
        left: first column of the window.
        fill: at least C values.
    """
    height, width, channels = src.shape
    size_y, size_x, _ = dst.shape
    image, result = src.reshape(src.size), dst.reshape(dst.size)
    x0 = min(max(-left, 0), size_x)
    x1 = max(min(width - left, size_x), x0)
    for y in range(size_y):
        row = y * size_x
        if 0 <= y + top < height:
            fill_run(result, row * channels, x0, channels, fill)
            start = np.uint64((row + x0) * channels)
            source = np.uint64(((y + top) * width + left + x0) * channels)
            for i in range(np.uint64((x1 - x0) * channels)):
                result[start + i] = image[source + i]
            fill_run(result, (row + x1) * channels, size_x - x1, channels, fill)
        else:
            fill_run(result, row * channels, size_x, channels, fill)


@kernel
def fill_run(result: Any, at: int, count: int, channels: int, fill: Any) -> None:
    """Write `count` pixels of the fill into a flat image, beginning at index `at`."""
    for x in range(count):
        for c in range(channels):
            result[np.uint64(at + x * channels + c)] = fill[c]


def plain_cut(src: np.ndarray, dst: np.ndarray, top: int, left: int, fill: np.ndarray) -> None:
    """Cut with NumPy; the reference of `cut`."""
    rows, columns = np.arange(dst.shape[0]) + top, np.arange(dst.shape[1]) + left
    inside = ((rows >= 0) & (rows < src.shape[0]))[:, None] & (columns >= 0)
    inside &= columns < src.shape[1]
    picked = src[rows.clip(0, src.shape[0] - 1)[:, None], columns.clip(0, src.shape[1] - 1)]
    fills = fill[: src.shape[2]] if src.ndim == 3 else fill[0]
    dst[...] = np.where(inside[..., None] if src.ndim == 3 else inside, picked, fills)


def require_fill(op: str, states: tuple[State, ...], fill: tuple[int, ...], mask_fill: int) -> None:
    """Refuse fills that an image has not the channels for, or a mask not the range.

    Raises:
        StateError: naming fill and state.
    """
    for state in states:
        if state.kind == "image" and len(fill) not in (1, state.shape[2]):
            raise StateError(
                f"{op}: expected fill to be one level or one for each channel of {state}, got "
                f"{len(fill)} levels {fill}",
                op=op,
            )
        if state.kind == "mask":
            limits = np.iinfo(state.dtype)
            if not limits.min <= mask_fill <= limits.max:
                raise StateError(
                    f"{op}: expected mask_fill from {limits.min} to {limits.max} for {state}, got "
                    f"{mask_fill}",
                    op=op,
                )


def fill_levels(fill: tuple[int, ...]) -> tuple[int, ...]:
    """Return a fill for four channels."""
    return fill * 4 if len(fill) == 1 else fill + (0,) * (4 - len(fill))
