"""Paste a box of one value with pixels over another: each byte of the result is written once."""

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.runs import copy_run


@kernel
def paste(own: Any, other: Any, dst: Any, planes: int, size: Any, box: Any) -> None:
    """Write `own`, but `other` inside of the box.

    Args:
        own: contiguous uint8 (the bytes of any dtype) of two or three axes.
        other: of the same shape.
        dst: of the same shape; overlaps neither.
        planes: number of planes, one after the other.
        size: (height, width) of each plane, in pixels.
        box: (top, left, height, width), inside of them.
    """
    top, left, tall, wide = box
    a, b, result = own.reshape(own.size), other.reshape(other.size), dst.reshape(dst.size)
    line = dst.size // (planes * size[0])
    first, end = left * (line // size[1]), (left + wide) * (line // size[1])
    done = 0
    for plane in range(planes):
        for y in range(plane * size[0] + top, plane * size[0] + top + tall):
            copy_run(a, done, result, done, y * line + first - done)
            copy_run(b, y * line + first, result, y * line + first, end - first)
            done = y * line + end
    copy_run(a, done, result, done, dst.size - done)


def plain_paste(
    own: np.ndarray,
    other: np.ndarray,
    dst: np.ndarray,
    planes: int,
    size: tuple[int, int],
    box: tuple[int, int, int, int],
) -> None:
    """The reference of `paste`."""
    top, left, tall, wide = box
    dst[...] = own
    into, source = (array.reshape(planes, *size, -1) for array in (dst, other))
    part = slice(top, top + tall), slice(left, left + wide)
    into[:, *part] = source[:, *part]
