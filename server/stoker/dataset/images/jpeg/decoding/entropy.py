"""Entropy decoding of many intervals at once; the plain form decodes one after the other.

An interval is a row of blocks of 64 coefficients (int16, zigzag order) in a slot of a power of two
bytes. The number of the last coefficient says which table is next (`fill_following`), so DC, AC and
the end of a block are one case. Behind the last block is a table without symbols: it marks the
place where the next DC would be, and takes no bits, so the position in the data stays exact.

Nothing outside of a slot is written, for any data: a lookup moves by at most 32 coefficients, then
to the end of a block; there are at most four between two tests; behind the last block each moves by
one. So a slot has two blocks more than its interval. A code that does not exist moves
behind the mark's place, which then stays empty. A lookup takes at most 31 bits for a coefficient,
so reading stays within `bytes_read` of an interval's begin.
"""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.decoding.sizes import DC_MARK, ENTRIES, LOOKUP_BITS
from stoker.dataset.images.jpeg.decoding.tables import (
    CODE,
    LATE,
    NEAR,
    OFFSETS,
    SLOW,
    STOP,
    SYMBOLS,
    extended,
)
from stoker.dataset.images.jpeg.decoding.unstuffing import ENDS, STARTS
from stoker.jit import kernel

BLOCK_BYTES: Final = 128
SPARE_BLOCKS: Final = 2


@kernel
def slot_bytes(blocks: Any) -> Any:
    """Return the size of the slot of an interval, a power of two."""
    size = BLOCK_BYTES
    while size < BLOCK_BYTES * (blocks + SPARE_BLOCKS):
        size *= 2
    return size


@kernel
def bytes_read(blocks: Any) -> Any:
    """Return how far behind the begin of an interval its stream may read, in bytes."""
    return 4 * 64 * blocks + 64


@kernel
def fill_following(
    parts: Any, count: Any, mcus: Any, slot: Any, tables: Any, following: Any
) -> Any:
    """Fill the table that follows each coefficient of a slot; return the blocks of an interval.

    Args:
        parts: (components, 2 or more) int64: sampling factors h and v first.
        count: components.
        mcus: MCUs of an interval.
        slot: bytes of a slot.
        tables: flat int64, all tables.
        following: flat int64, one for each coefficient of a slot: the address of a table, or in
            the plain form its place in `tables`, in bytes.
    """
    base, size = address(tables), 8 * ENTRIES
    last = slot // 2 - 1
    block = 0
    for _ in range(mcus):
        for i in range(count):
            k = min(i, 1)
            first, most = base + 2 * k * size, base + (2 * k + 1) * size
            late = base + (LATE + k) * size
            for _ in range(parts[i, 0] * parts[i, 1]):
                at = 64 * block
                following[np.uint64((at - 1) & last)] = first
                for j in range(at, at + 63 - NEAR):
                    following[np.uint64(j)] = most
                for j in range(at + 63 - NEAR, at + 63):
                    following[np.uint64(j)] = late
                block += 1
    for j in range(64 * block - 1, last):
        following[np.uint64(j)] = base + STOP * size
    return block


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.memory:address")
def address(array: Any) -> int:
    """Return the address of an array's memory; 0 in plain Python."""
    return 0


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.streams:decode_intervals")
def decode_intervals(
    plain: Any, places: Any, count: Any, coefficients: Any, following: Any, codes: Any, shape: Any
) -> None:
    """Decode intervals to their slots.

    Args:
        plain: flat uint8, the data of the intervals without stuffed bytes.
        places: (2 or 3, count + STREAMS) int64: STARTS are given, in bits of `plain`; receives
            ENDS; undefined behind `count`.
        count: intervals, at least 1.
        coefficients: flat int16, aligned to a slot: count + STREAMS slots, of which the last ones
            receive anything.
        following: see `fill_following`.
        codes: canonical codes of the tables.
        shape: (bytes of a slot, bytes of the blocks of an interval, the tables).
    """
    slot, end, tables = shape
    for number in range(count):
        bit, last = int(places[STARTS, number]), -2
        own = number * slot // 2
        while last < end:
            window = 0
            for k in range(9):
                window = window << 8 | int(plain[(bit >> 3) + k])
            window = (window << (bit & 7) >> 8) & (2**64 - 1)
            table = int(following[(last & (slot - 1)) // 2]) // 8
            entry = int(tables[table + (window >> (64 - LOOKUP_BITS))])
            if entry & SLOW:
                used, last, value = _slowly(window, last, entry, codes, end)
                coefficients[own + last // 2] = value
                bit += used
                continue
            bit += entry & 127
            last += (entry >> 8) & 255
            coefficients[own + last // 2] = _int16(entry >> 16)
            last += (entry >> 48) & 255
            coefficients[own + last // 2] = _int16(entry >> 32)
            last |= (entry >> 56) & 255
        places[ENDS, number] = bit


def _int16(bits: Any) -> Any:
    return ((bits & 0xFFFF) ^ 0x8000) - 0x8000


def _slowly(window: Any, last: Any, entry: Any, codes: Any, end: Any) -> tuple[Any, Any, Any]:
    """Decode one long symbol: (bits, place, value)."""
    number = (entry >> 32) & 3
    length, size, step = (entry >> 8) & 255, (entry >> 16) & 255, (entry >> 24) & 255
    mark = 0 if number & 1 else DC_MARK
    if length == 0:
        code, length = window >> 48, LOOKUP_BITS + 1
        while length <= 16 and code >= int(codes[CODE * number + length]):
            length += 1
        if length > 16:
            return 0, end + 2, 0
        place = (code >> (16 - length)) + int(codes[CODE * number + OFFSETS + length])
        symbol = int(codes[CODE * number + SYMBOLS + (place & 255)])
        size, step = symbol & 15, 2
        if number & 1:
            step += 2 * (symbol >> 4)
            if size == 0 and symbol != 0xF0:
                return length, (last + 2) | 126, 0
    bits = (window << length >> (64 - size)) & ((1 << size) - 1)
    return length + size, last + step, extended(bits, size) + mark
