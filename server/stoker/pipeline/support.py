"""Kernels that the glue calls besides those of the ops; see `stoker.rng.jit`. numba-free."""

from __future__ import annotations

from typing import Any

from stoker.rng.jit import kernel


@kernel(twin="stoker.pipeline.intrinsics:mutable")
def mutable(array: Any) -> Any:
    """Return the array; compiled, one of a type that may be written.

    So a kernel is compiled once for inputs and for scratch. Nothing ever writes to an input.
    """
    return array


@kernel
def key_of(row: Any, stream: Any) -> Any:
    """Return the key of a decision: five uint64.

    `row` is (4,) uint64: seed, id, epoch, lane. `stream` is (5,) uint64, see
    `stoker.pipeline.tables`: the stream's key word, id mask, frozen id, epoch mask, lane mask.
    """
    return (
        row[0],
        stream[0],
        (row[1] & stream[1]) | stream[2],
        row[2] & stream[3],
        row[3] & stream[4],
    )


@kernel
def copy(src: Any, dst: Any) -> None:
    """Copy element by element in row-major order, with the dtype of `dst`; both contiguous."""
    flat, into = src.reshape(src.size), dst.reshape(dst.size)
    for i in range(flat.size):
        into[i] = flat[i]


@kernel
def store_packed(src: Any, out: Any, sizes: Any, row: int) -> bool:
    """Copy a value to the begin of its row of an output, and its size to the output of sizes."""
    flat, into = src.reshape(src.size), out[row].reshape(out[row].size)
    for i in range(flat.size):
        into[i] = flat[i]
    for side in range(sizes.shape[1]):
        sizes[row, side] = src.shape[side]
    return True


@kernel
def store_padded(src: Any, out: Any, sizes: Any, row: int, fill: Any) -> bool:
    """Copy a value to the begin of each side of its row of an output, fill the rest; and its size.

    Returns:
        Whether the row has room for it; if not, nothing but sizes is written.
    """
    for side in range(sizes.shape[1]):
        sizes[row, side] = src.shape[side]
        if src.shape[side] > out.shape[side + 1]:
            return False
    lines, room = 1, 1
    if sizes.shape[1] > 1:
        lines, room = src.shape[0], out.shape[1]
    dst = out[row]
    flat, into = src.reshape(src.size), dst.reshape(dst.size)
    length, wide = src.size // max(lines, 1), dst.size // room
    for y in range(lines):
        for i in range(length):
            into[y * wide + i] = flat[y * length + i]
        for i in range(y * wide + length, (y + 1) * wide):
            into[i] = fill
    for i in range(lines * wide, into.size):
        into[i] = fill
    return True


@kernel
def floordiv(left: Any, right: Any) -> Any:
    """Return floor(left / right) of int64; 0 for a divisor of 0, and it wraps for -2**63 // -1."""
    if right == 0:
        return left - left
    if right == -1:
        return -left
    return left // right


@kernel
def mod(left: Any, right: Any) -> Any:
    """Return left modulo right of int64, with the sign of the divisor; 0 for a divisor of 0."""
    if right in (0, -1):
        return left - left
    return left % right


@kernel
def part(arena: Any, start: int, end: int) -> Any:
    """Return the bytes [start, end) of the arena."""
    return arena[start:end]


@kernel
def plane(arena: Any, start: int, height: int, width: int) -> Any:
    """Return the bytes from `start` as (height, width) uint8."""
    return arena[start : start + height * width].reshape((height, width))


@kernel
def pixels(arena: Any, start: int, height: int, width: int, channels: int) -> Any:
    """Return the bytes from `start` as (height, width, channels) uint8."""
    end = start + height * width * channels
    return arena[start:end].reshape((height, width, channels))
