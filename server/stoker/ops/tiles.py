"""Tiles: a few rows of an image turned into columns, so that a blend along the row vectorises.

A tile of R rows has, for every byte column i of the rows, the R bytes of that column side by side:
byte i*R + r is column i of row r. Rows are written four at a time as one little-endian uint32; R
is a multiple of 4. Three channels make tiles of 16 rows, which have kernels of their own for speed.
"""

from typing import Any, Final

import numpy as np

from stoker.rng.jit import kernel

BYTE: Final = np.uint32(255)
S1: Final = np.uint32(8)
S2: Final = np.uint32(16)
S3: Final = np.uint32(24)
K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)
K4: Final = np.uint64(4)


@kernel
def pack4(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return four bytes as one little-endian uint32."""
    return np.uint32(a) | np.uint32(b) << S1 | np.uint32(c) << S2 | np.uint32(d) << S3


@kernel
def turn(src: Any, at: int, stride: int, last: int, count: int, rows: int, tile: Any) -> None:
    """Write rows as columns.

    Args:
        src: flat uint8 image.
        at: index of the first byte of the first row.
        stride: bytes from row to row.
        last: number of the last row there is; later rows of the tile repeat it.
        count: bytes of a row.
        rows: R, the rows of the tile.
        tile: flat uint32, at least `count * rows / 4` words.
    """
    if rows == 16:
        turn16(src, at, stride, last, count, tile)
        return
    step = np.uint64(rows // 4)
    for group in range(rows // 4):
        r0 = np.uint64(at + min(4 * group, last) * stride)
        r1 = np.uint64(at + min(4 * group + 1, last) * stride)
        r2 = np.uint64(at + min(4 * group + 2, last) * stride)
        r3 = np.uint64(at + min(4 * group + 3, last) * stride)
        for i in range(np.uint64(count)):
            k = step * i + np.uint64(group)
            tile[k] = pack4(src[r0 + i], src[r1 + i], src[r2 + i], src[r3 + i])


@kernel
def turn16(src: Any, at: int, stride: int, last: int, count: int, tile: Any) -> None:
    """Write 16 rows as columns; see `turn`."""
    r0 = np.uint64(at)
    r1 = np.uint64(at + min(1, last) * stride)
    r2 = np.uint64(at + min(2, last) * stride)
    r3 = np.uint64(at + min(3, last) * stride)
    r4 = np.uint64(at + min(4, last) * stride)
    r5 = np.uint64(at + min(5, last) * stride)
    r6 = np.uint64(at + min(6, last) * stride)
    r7 = np.uint64(at + min(7, last) * stride)
    r8 = np.uint64(at + min(8, last) * stride)
    r9 = np.uint64(at + min(9, last) * stride)
    ra = np.uint64(at + min(10, last) * stride)
    rb = np.uint64(at + min(11, last) * stride)
    rc = np.uint64(at + min(12, last) * stride)
    rd = np.uint64(at + min(13, last) * stride)
    re = np.uint64(at + min(14, last) * stride)
    rf = np.uint64(at + min(15, last) * stride)
    for i in range(np.uint64(count)):
        k = K4 * i
        tile[k] = pack4(src[r0 + i], src[r1 + i], src[r2 + i], src[r3 + i])
        tile[k + K1] = pack4(src[r4 + i], src[r5 + i], src[r6 + i], src[r7 + i])
        tile[k + K2] = pack4(src[r8 + i], src[r9 + i], src[ra + i], src[rb + i])
        tile[k + K3] = pack4(src[rc + i], src[rd + i], src[re + i], src[rf + i])


@kernel
def back(tile: Any, count: int, rows: int, used: int, dst: Any, at: int, stride: int) -> None:
    """Write columns as rows: the inverse of `turn`, for the first `used` rows of the tile.

    Args:
        tile: flat uint32.
        count: bytes of a row.
        rows: R, the rows of the tile.
        used: rows to write.
        dst: flat uint8 image.
        at: index of the first byte of the first row.
        stride: bytes from row to row.
    """
    step = np.uint64(rows // 4)
    for group in range(used // 4):
        top = at + 4 * group * stride
        if rows == 16:
            back4of16(tile, np.uint64(group), count, dst, top, stride)
        else:
            back4(tile, np.uint64(group), step, count, dst, top, stride)
    for row in range(used // 4 * 4, used):
        start = np.uint64(at + row * stride)
        shift = np.uint32(8 * (row % 4))
        for i in range(np.uint64(count)):
            word = tile[step * i + np.uint64(row // 4)]
            dst[start + i] = np.uint8(word >> shift & BYTE)


@kernel
def back4of16(tile: Any, group: Any, count: int, dst: Any, at: int, stride: int) -> None:
    """Write four rows of a tile of 16; see `back`."""
    r0, r1 = np.uint64(at), np.uint64(at + stride)
    r2, r3 = np.uint64(at + 2 * stride), np.uint64(at + 3 * stride)
    for i in range(np.uint64(count)):
        word = tile[K4 * i + group]
        dst[r0 + i] = np.uint8(word & BYTE)
        dst[r1 + i] = np.uint8(word >> S1 & BYTE)
        dst[r2 + i] = np.uint8(word >> S2 & BYTE)
        dst[r3 + i] = np.uint8(word >> S3)


@kernel
def back4(tile: Any, group: Any, step: Any, count: int, dst: Any, at: int, stride: int) -> None:
    """Write four rows of a tile of any height; see `back`."""
    r0, r1 = np.uint64(at), np.uint64(at + stride)
    r2, r3 = np.uint64(at + 2 * stride), np.uint64(at + 3 * stride)
    for i in range(np.uint64(count)):
        word = tile[step * i + group]
        dst[r0 + i] = np.uint8(word & BYTE)
        dst[r1 + i] = np.uint8(word >> S1 & BYTE)
        dst[r2 + i] = np.uint8(word >> S2 & BYTE)
        dst[r3 + i] = np.uint8(word >> S3)
