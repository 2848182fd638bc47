"""Small kernels of the loop and its adapters; see `stoker.jit`."""

from __future__ import annotations

from typing import Any

import numpy as np

from stoker.jit import kernel


@kernel
def key_of(row: Any, stream: Any) -> Any:
    """Return the key of a decision: five uint64.

    `row` is (4,) uint64: seed, id, epoch, lane. `stream` is (5,) uint64, see
    `planning.engine_tables`: the stream's key word, id mask, frozen id, epoch mask, lane mask.
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
def whole(side: Any) -> Any:
    """Return a side from `out_size` as int64; -1 for nan and for impossibly large values.

    `stoker.pipeline.plain.plain_calls.whole_sides` is the same in plain Python.
    """
    if -1099511627776 < side < 1099511627776:
        return np.int64(side)
    return np.int64(-1)


@kernel
def padded(src: Any, dst: Any, sides: int, fill: Any) -> bool:
    """Copy a value to the start of each of the first sides of `dst`, and fill the rest.

    Returns:
        Whether it fits; if not, nothing is written.
    """
    for side in range(sides):
        if src.shape[side] > dst.shape[side]:
            return False
    lines, room = 1, 1
    if sides > 1:
        lines, room = src.shape[0], dst.shape[0]
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
