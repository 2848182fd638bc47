"""Blocks of a JPEG file, encoded and decoded: transform, division by a table, and back.

A block is stored as 64 int16, eight adjacent columns, so that the eight transforms of a pass are
one vector loop; between passes it is transposed. Forward: rows first, where 2 of the 13 new
fraction bits are kept, then columns; coefficients are 8 times the transform. They are divided by 8
times the table's entry, rounded, halves away from zero, multiplied, and transformed back, columns
first.

int16 can hold all of it: coefficients are up to 8192; the table's rounding adds less than 8192.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.dct import BITS, descale, forward8, inverse8

SIDE: Final = 8
SIZE: Final = 64
KEPT: Final = 2
"""Fraction bits between the two passes."""
GRAY: Final = 128
FIRST: Final = BITS - KEPT
FORWARD_LAST: Final = BITS + KEPT
INVERSE_LAST: Final = BITS + KEPT + 3
TABLE_BYTES: Final = 6 * SIZE
"""Bytes of one table: entries as int16 and their inverses as float32."""


@kernel
def fill_table(base: Any, quality: int, entries: Any, inverses: Any) -> None:
    """Write the table of a quality from 1 to 100: entries (64,) int16, inverses (64,) float32.

    An inverse is 1 / 16 of an entry's, for twice a coefficient that is scaled by 8.
    """
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    for i in range(SIZE):
        entry: Any = min(max((int(base[i]) * scale + 50) // 100, 1), 255)
        entries[i] = entry
        inverses[i] = 1.0 / (16 * entry)


@kernel
def code_plane(plane: Any, stride: int, table: Any, blocks: Any) -> None:
    """Encode and decode every block of a flat plane in place.

    Args:
        plane: flat uint8 of whole blocks.
        stride: columns of the plane.
        table: (entries, inverses), from `fill_table`.
        blocks: (a, b): `(64,) int16` of scratch each.
    """
    a, b = blocks
    for top in range(0, plane.size, SIDE * stride):
        for at in range(top, top + stride, SIDE):
            load(plane, at, stride, a)
            forward_pass(a, FIRST)
            flip(a, b)
            forward_pass(b, FORWARD_LAST)
            quantize(b, table)
            inverse_pass(b, FIRST)
            flip(b, a)
            inverse_pass(a, INVERSE_LAST)
            store(a, plane, at, stride)


@kernel
def load(plane: Any, at: int, stride: int, block: Any) -> None:
    """Copy a block from a plane, transposed, with gray as 0."""
    for y in range(SIDE):
        for x in range(SIDE):
            block[np.uint64(x * SIDE + y)] = np.int64(plane[np.uint64(at + y * stride + x)]) - GRAY


@kernel
def store(block: Any, plane: Any, at: int, stride: int) -> None:
    """Write a transposed block back to a plane."""
    for y in range(SIDE):
        for x in range(SIDE):
            level = np.int64(block[np.uint64(x * SIDE + y)]) + GRAY
            plane[np.uint64(at + y * stride + x)] = min(max(level, 0), 255)


@kernel
def flip(block: Any, other: Any) -> None:
    """Transpose a block."""
    for y in range(SIDE):
        for x in range(SIDE):
            other[np.uint64(x * SIDE + y)] = block[np.uint64(y * SIDE + x)]


@kernel
def column(block: Any, i: Any) -> Any:
    """Return a column of a block."""
    return (
        block[i],
        block[i + np.uint64(8)],
        block[i + np.uint64(16)],
        block[i + np.uint64(24)],
        block[i + np.uint64(32)],
        block[i + np.uint64(40)],
        block[i + np.uint64(48)],
        block[i + np.uint64(56)],
    )


@kernel
def put_column(block: Any, i: Any, values: Any, bits: int) -> None:
    """Write a column of a block, dropping some fraction bits."""
    block[i] = descale(values[0], bits)
    block[i + np.uint64(8)] = descale(values[1], bits)
    block[i + np.uint64(16)] = descale(values[2], bits)
    block[i + np.uint64(24)] = descale(values[3], bits)
    block[i + np.uint64(32)] = descale(values[4], bits)
    block[i + np.uint64(40)] = descale(values[5], bits)
    block[i + np.uint64(48)] = descale(values[6], bits)
    block[i + np.uint64(56)] = descale(values[7], bits)


@kernel
def forward_pass(block: Any, bits: int) -> None:
    """Transform all columns of a block in place."""
    for i in range(np.uint64(SIDE)):
        put_column(block, i, forward8(column(block, i)), bits)


@kernel
def inverse_pass(block: Any, bits: int) -> None:
    """Transform all columns of a block back in place."""
    for i in range(np.uint64(SIDE)):
        put_column(block, i, inverse8(column(block, i)), bits)


@kernel
def quantize(block: Any, table: Any) -> None:
    """Round every coefficient to a multiple of its entry.

    |c| / (8 e), rounded, is floor((2 |c| + 8 e + 1) / (16 e)): an odd number over an even one, so
    a float32 product with a relative error below 2**-22 has the right integer part.
    """
    entries, inverses = table
    for i in range(np.uint64(SIZE)):
        value, entry = np.int32(block[i]), np.int32(entries[i])
        twice = np.int32(np.int32(2 * abs(value)) + np.int32(8 * entry + 1))
        steps = np.int32(np.float32(np.float32(twice) * inverses[i]))
        size = np.int32(steps * entry)
        block[i] = size if value >= 0 else -size


def plain_code_plane(plane: np.ndarray, base: np.ndarray, quality: int) -> np.ndarray:
    """Return a plane `(h, w) int64` encoded and decoded, with NumPy."""
    entries = np.zeros(SIZE, np.int64)
    fill_table(base, quality, entries, np.zeros(SIZE))
    table = entries.reshape(SIDE, SIDE)
    height, width = plane.shape
    blocks = plane.reshape(height // SIDE, SIDE, width // SIDE, SIDE).swapaxes(1, 2) - GRAY
    blocks = plain_pass(forward8, blocks, 3, FIRST)
    blocks = plain_pass(forward8, blocks, 2, FORWARD_LAST)
    blocks = np.sign(blocks) * ((abs(blocks) + 4 * table) // (8 * table)) * table
    blocks = plain_pass(inverse8, blocks, 2, FIRST)
    blocks = plain_pass(inverse8, blocks, 3, INVERSE_LAST)
    coded: np.ndarray = np.clip(blocks + GRAY, 0, 255).swapaxes(1, 2).reshape(height, width)
    return coded


def plain_pass(transform: Any, blocks: np.ndarray, axis: int, bits: int) -> np.ndarray:
    """Transform all blocks along one axis."""
    lines = tuple(np.moveaxis(blocks, axis, 0))
    return np.stack([descale(values, bits) for values in transform(lines)], axis)
