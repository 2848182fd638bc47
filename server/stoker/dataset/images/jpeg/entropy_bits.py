"""Reading and writing the bits of entropy-coded JPEG data, compiled.

A reader's state is int64[4]: position in the data, bit buffer, number of bits in it, and how many
of those are made up because the data ended (at a marker or at the end). Made-up bits are zeros; a
reader that has used one has read damaged data (`overrun`). A writer's state is int64[3]: position,
bit buffer, number of bits in it. Stuffing follows ITU-T T.81, B.1.1.5.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel

PLACE, BUFFER, COUNT, MADE_UP = 0, 1, 2, 3
LOOKAHEAD: Final = 16


@kernel
def fill(data: Any, end: int, state: Any) -> None:
    """Fill the buffer to at least 33 bits."""
    place, buffer, count, made_up = more(
        data, end, state[PLACE], state[BUFFER], state[COUNT], state[MADE_UP]
    )
    state[PLACE], state[BUFFER], state[COUNT], state[MADE_UP] = place, buffer, count, made_up


@kernel
def more(data: Any, end: Any, place: Any, buffer: Any, count: Any, made_up: Any) -> Any:
    """Return a reader's state with at least 33 bits in the buffer; for hot loops."""
    while count <= 32:
        byte = np.int64(0)
        if place < end and data[np.uint64(place)] != 0xFF:
            byte = np.int64(data[np.uint64(place)])
            place += 1
        elif place + 1 < end and data[np.uint64(place + 1)] == 0:
            byte = np.int64(0xFF)
            place += 2
        else:
            made_up += 8
        buffer = ((buffer << 8) | byte) & 0xFFFFFFFFFF
        count += 8
    return place, buffer, count, made_up


@kernel
def take(data: Any, end: int, state: Any, bits: int) -> Any:
    """Return the next `bits` bits (0 to 16) as a number."""
    if state[COUNT] < bits:
        fill(data, end, state)
    state[COUNT] -= bits
    return (state[BUFFER] >> state[COUNT]) & ((1 << bits) - 1)


@kernel
def symbol(data: Any, end: int, state: Any, table: Any) -> Any:
    """Return the next Huffman symbol, or -1 if no code matches; `table` comes from `lookup`."""
    if state[COUNT] < LOOKAHEAD:
        fill(data, end, state)
    entry = np.int64(table[(state[BUFFER] >> (state[COUNT] - LOOKAHEAD)) & 0xFFFF])
    length = entry >> 8
    if length == 0:
        return -1
    state[COUNT] -= length
    return entry & 0xFF


@kernel
def signed(data: Any, end: int, state: Any, bits: int) -> Any:
    """Return the next signed value of `bits` bits (T.81, F.2.2.1, EXTEND)."""
    if bits == 0:
        return 0
    value = take(data, end, state, bits)
    if value < (1 << (bits - 1)):
        return value - (1 << bits) + 1
    return value


@kernel
def overrun(state: Any) -> bool:
    """Return whether made-up bits were used."""
    return bool(state[COUNT] < state[MADE_UP])


@kernel
def realign(state: Any) -> bool:
    """Drop the rest of the last byte; False if whole bytes were left, an error in the data."""
    left = state[COUNT] - state[MADE_UP]
    state[BUFFER] = state[COUNT] = state[MADE_UP] = 0
    return bool(0 <= left < 8)


@kernel
def put(out: Any, state: Any, value: Any, bits: Any) -> None:
    """Write the low `bits` bits (0 to 32) of a number; whole bytes go to `out`, 0xFF stuffed."""
    place, count = state[PLACE], state[COUNT] + bits
    buffer = (state[BUFFER] << bits) | (value & ((np.int64(1) << bits) - 1))
    while count >= 8:
        count -= 8
        byte = (buffer >> count) & 0xFF
        out[np.uint64(place)] = byte
        place += 1
        if byte == 0xFF:
            out[np.uint64(place)] = 0
            place += 1
    state[PLACE], state[BUFFER], state[COUNT] = place, buffer & 0xFF, count


@kernel
def flush(out: Any, state: Any) -> None:
    """Fill the last byte with ones (T.81, F.1.2.3)."""
    if state[COUNT]:
        put(out, state, 0xFF, 8 - state[COUNT])


@kernel
def category(value: Any) -> Any:
    """Return the number of bits in the magnitude of a number below 2^16."""
    left, bits = abs(value), np.int64(0)
    if left >= 256:
        left, bits = left >> 8, bits + 8
    if left >= 16:
        left, bits = left >> 4, bits + 4
    if left >= 4:
        left, bits = left >> 2, bits + 2
    return bits + min(left, 2)
