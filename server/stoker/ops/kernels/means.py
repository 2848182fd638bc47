"""Weighted means of whole values, pasted and moved boxes: the arithmetic of batch ops.

uint8: with w = floor(part * 2**16 + 0.5), (a * w + b * (2**16 - w) + 2**15) >> 16, in integers.
float32 and float64: a * p + b * q, p and q being part and 1 - part (computed in float64) rounded to
the dtype; each operation is rounded once. float16 is widened to float32 and its result rounded to
nearest, halves to even. Every NaN result is the same NaN: 0x7E00, 0x7FC00000 or
0x7FF8000000000000.

`run` and `plain` forms give the same bytes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.jit.arithmetic import Arithmetic
from stoker.ops.kernels.float_levels import number, plain_number
from stoker.ops.kernels.half import narrowed, to_halves, widened
from stoker.ops.kernels.paste import paste, plain_paste
from stoker.ops.kernels.points import MOVERS
from stoker.ops.kernels.warp import BILINEAR, plain_warp_affine, warp_affine

ONE: Final = 1 << 16
HALF: Final = np.int32(1 << 15)
SHIFT: Final = np.int32(16)


@kernel
def blend_bytes(a: Any, b: Any, dst: Any, weight: Any) -> None:
    """Write the weighted mean of flat uint8 arrays; `weight` is an int32 from 0 to 2**16."""
    for i in range(np.uint64(dst.size)):
        low = np.int32(b[i])
        part = np.int32(np.int32(np.int32(a[i]) - low) * weight)
        dst[i] = np.uint8(np.int32(np.int32(low * np.int32(ONE)) + part + HALF) >> SHIFT)


def plain_bytes(a: np.ndarray, b: np.ndarray, dst: np.ndarray, weight: np.int32) -> None:
    """The reference of `blend_bytes`."""
    total = a.astype(np.int64) * int(weight) + b.astype(np.int64) * (ONE - int(weight))
    dst[...] = (total + ONE // 2) // ONE


@kernel
def blend_floats(a: Any, b: Any, dst: Any, p: Any, q: Any) -> None:
    """Write the weighted mean of flat arrays of the weights' dtype."""
    for i in range(np.uint64(dst.size)):
        dst[i] = number(a[i] * p + b[i] * q)


def plain_floats(a: np.ndarray, b: np.ndarray, dst: np.ndarray, p: Any, q: Any) -> None:
    """The reference of `blend_floats`."""
    with np.errstate(all="ignore"):
        dst[...] = plain_number(a * p + b * q)


@kernel
def blend_halves(a: Any, b: Any, dst: Any, p: Any, q: Any) -> None:
    """Write the weighted mean of flat arrays of float16 bits; p and q are float32."""
    for i in range(np.uint64(dst.size)):
        dst[i] = narrowed(np.float32(widened(a[i]) * p + widened(b[i]) * q))


def plain_halves(a: np.ndarray, b: np.ndarray, dst: np.ndarray, p: Any, q: Any) -> None:
    """The reference of `blend_halves`."""
    with np.errstate(all="ignore"):
        first, second = (bits.view(np.float16).astype(np.float32) for bits in (a, b))
        dst[...] = to_halves(first * p + second * q)


class Tools:
    """How batch ops compute, in one of two ways that give the same bytes; belongs to one thread."""

    def __init__(self, *, arithmetic: Arithmetic) -> None:
        """Prepare.

        Args:
            arithmetic: compiled (imports numba), or NumPy and plain Python.
        """
        self._bytes: Any = arithmetic.of(blend_bytes, plain_bytes)
        self._floats: Any = arithmetic.of(blend_floats, plain_floats)
        self._halves: Any = arithmetic.of(blend_halves, plain_halves)
        self._paste: Any = arithmetic.of(paste, plain_paste)
        self._warp: Any = arithmetic.of(warp_affine, plain_warp_affine)
        self._movers = {kind: arithmetic.of(fn) for kind, fn in MOVERS.items()}

    def blend(self, a: np.ndarray, b: np.ndarray, dst: np.ndarray, part: float) -> None:
        """Write the weighted mean of two contiguous arrays.

        Args:
            a: weighted by `part`, in [0, 1].
            b: weighted by the rest; of the same shape and dtype.
            dst: output, of the same shape and dtype.
            part: weight of `a`.
        """
        one, two, into = a.reshape(-1), b.reshape(-1), dst.reshape(-1)
        if dst.dtype == np.uint8:
            self._bytes(one, two, into, np.int32(int(part * ONE + 0.5)))
        elif dst.dtype == np.float16:
            bits = (array.view(np.uint16) for array in (one, two, into))
            self._halves(*bits, np.float32(part), np.float32(1.0 - part))
        else:
            weight = dst.dtype.type
            self._floats(one, two, into, weight(part), weight(1.0 - part))

    def paste(
        self,
        own: np.ndarray,
        other: np.ndarray,
        dst: np.ndarray,
        grid: tuple[int, int, int],
        box: tuple[int, int, int, int],
    ) -> None:
        """Write a value with pixels, with another one inside of a box.

        Args:
            own: contiguous.
            other: of the same shape and dtype.
            dst: output, of the same shape and dtype.
            grid: (planes, height, width); see `stoker.ops.bases.batch_op.grid`.
            box: (top, left, height, width).
        """
        if dst.dtype != np.uint8:
            own, other, dst = (array.view(np.uint8) for array in (own, other, dst))
        self._paste(own, other, dst, grid[0], grid[1:], box)

    def warp(
        self, src: np.ndarray, shape: tuple[int, ...], steps: tuple[int, ...], fill: np.ndarray
    ) -> np.ndarray:
        """Return an image sampled at positions that are linear in the output pixel, bilinear.

        Args:
            src: (H, W, C) uint8, float16 or float32, contiguous; float16 is computed as float32
                and rounded to nearest, halves to even.
            shape: (h, w, C) of the result.
            steps: see `stoker.ops.kernels.warp.warp_affine`.
            fill: (C,) float32, what is outside of the source.
        """
        wide = np.float32 if src.dtype == np.float16 else src.dtype
        made = np.empty(shape, wide)
        self._warp(src.astype(wide, copy=False), made, steps, BILINEAR, fill)
        with np.errstate(all="ignore"):
            return made.astype(src.dtype, copy=False)

    def move(
        self,
        kind: str,
        src: np.ndarray,
        dst: np.ndarray,
        numbers: tuple[float, ...],
        sizes: tuple[int, int, int, int],
        visible: int,
    ) -> int:
        """Move boxes or keypoints; see `stoker.ops.kernels.points.move_boxes`."""
        with np.errstate(all="ignore"):
            return int(self._movers[kind](src, dst, numbers, sizes, visible))
