"""Transposed blocks of n by n pixels, from which quarter turns of images are built.

Compiled they are turned in registers (`simd.blocks`); the plain forms define the
result. Pixel r of source row j becomes pixel j of output row r. Arrays are flat uint8; indices and
steps count bytes, and steps may be negative. The block must be inside of both arrays.
"""

from typing import Any

from stoker.jit import kernel


@kernel(twin="stoker.ops.kernels.simd.blocks:turn1")
def turn1(src: Any, start: int, step: int, dst: Any, to: int, line: int) -> None:
    """Turn 16 by 16 pixels of one byte."""
    plain_turn(src, (start, step), dst, (to, line), 1, 16)


@kernel(twin="stoker.ops.kernels.simd.blocks:turn2")
def turn2(src: Any, start: int, step: int, dst: Any, to: int, line: int) -> None:
    """Turn 8 by 8 pixels of two bytes."""
    plain_turn(src, (start, step), dst, (to, line), 2, 8)


@kernel(twin="stoker.ops.kernels.simd.blocks:turn3")
def turn3(src: Any, start: int, step: int, dst: Any, to: int, line: int) -> None:
    """Turn 4 by 4 pixels of three bytes."""
    plain_turn(src, (start, step), dst, (to, line), 3, 4)


@kernel(twin="stoker.ops.kernels.simd.blocks:turn4")
def turn4(src: Any, start: int, step: int, dst: Any, to: int, line: int) -> None:
    """Turn 4 by 4 pixels of four bytes."""
    plain_turn(src, (start, step), dst, (to, line), 4, 4)


def plain_turn(src: Any, source: Any, dst: Any, target: Any, pixel: int, side: int) -> None:
    """Turn a block pixel by pixel.

    Args:
        src: flat uint8.
        source: (first byte, bytes from source row to source row).
        dst: flat uint8.
        target: (first byte, bytes from output row to output row).
        pixel: bytes of a pixel.
        side: pixels of a side.
    """
    (start, step), (to, line) = source, target
    for j in range(side):
        for r in range(side):
            a, b = start + j * step + r * pixel, to + r * line + j * pixel
            dst[b : b + pixel] = src[a : a + pixel]
