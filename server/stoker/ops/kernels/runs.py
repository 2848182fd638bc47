"""Runs of values and of pixels of three values, copied, reversed and normalized at once.

Each has a twin in `simd.runs`. Arrays are flat; places count values. The run that is
written does not overlap the one that is read.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel

SIXTEEN: Final = 16
"""Pixels of three values in a block."""
THIRTY_TWO: Final = 32
"""Single values in a block."""


@kernel(twin="stoker.ops.kernels.simd.runs:flat")
def flat(array: Any) -> Any:
    """Return the values of a contiguous array as a flat array."""
    return array.reshape(array.size)


@kernel(twin="stoker.ops.kernels.simd.runs:copy_run")
def copy_run(src: Any, at: int, dst: Any, to: int, count: int) -> None:
    """Copy contiguous values."""
    dst[to : to + count] = src[at : at + count]


@kernel(twin="stoker.ops.kernels.simd.runs:reverse32")
def reverse32(src: Any, at: int, dst: Any, to: int) -> None:
    """Write thirty-two values in reverse order."""
    dst[to : to + THIRTY_TWO] = src[at : at + THIRTY_TWO][::-1]


@kernel(twin="stoker.ops.kernels.simd.runs:reverse16")
def reverse16(src: Any, at: int, dst: Any, to: int) -> None:
    """Write sixteen pixels of three values in reverse order; values in a pixel keep their order."""
    pixels = src[at : at + 3 * SIXTEEN].reshape(SIXTEEN, 3)
    dst[to : to + 3 * SIXTEEN] = pixels[::-1].reshape(3 * SIXTEEN)


@kernel(twin="stoker.ops.kernels.simd.runs:exchange32")
def exchange32(array: Any, left: int, right: int) -> None:
    """Exchange two runs of thirty-two values, each in reverse order."""
    a, b = array[left : left + THIRTY_TWO], array[right : right + THIRTY_TWO]
    a[...], b[...] = b[::-1].copy(), a[::-1].copy()


@kernel(twin="stoker.ops.kernels.simd.runs:exchange16")
def exchange16(array: Any, left: int, right: int) -> None:
    """Exchange two runs of sixteen pixels of three values, each in reverse order of pixels."""
    a = array[left : left + 3 * SIXTEEN].reshape(SIXTEEN, 3)
    b = array[right : right + 3 * SIXTEEN].reshape(SIXTEEN, 3)
    a[...], b[...] = b[::-1].copy(), a[::-1].copy()


@kernel(twin="stoker.ops.kernels.simd.runs:planes16")
def planes16(src: Any, at: int, means: Any, gains: Any, dst: Any, to: int, plane: int) -> None:
    """Write (level - mean) * gain of sixteen pixels of three bytes, a run for each channel.

    Args:
        src: flat uint8.
        at: place of the first level.
        means: three float32.
        gains: three float32.
        dst: flat float32.
        to: place of the first channel's run.
        plane: values from one run to the next.
    """
    pixels = src[at : at + 3 * SIXTEEN].reshape(SIXTEEN, 3)
    for c in range(3):
        start = to + c * plane
        values = (pixels[:, c].astype(np.float32) - means[c]) * gains[c]
        dst[start : start + SIXTEEN] = values
