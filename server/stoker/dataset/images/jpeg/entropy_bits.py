"""Reading and writing the bits of entropy-coded JPEG data, compiled.

A reader's state is int64[4]: position in the data, bit buffer, number of bits in it, and how many
of those are made up because the data ended (at a marker or at the end). Made-up bits are zeros; a
reader that has used one has read damaged data (`overrun`). A writer has at most 31 bits in an int64
until it writes 32 of them. Stuffing follows ITU-T T.81, B.1.1.5.
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
    """Return a reader's state with at least 33 bits in the buffer; for hot loops.

    The number of bits is at most 63; those above it are of no meaning.
    """
    if count <= 31 and place + 4 <= end:
        at = np.uint64(place)
        high = np.int64(data[at]) << 24 | np.int64(data[at + np.uint64(1)]) << 16
        low = np.int64(data[at + np.uint64(2)]) << 8 | np.int64(data[at + np.uint64(3)])
        word = high | low
        if has_no_ff(word):
            buffer, count, place = (buffer << 32) | word, count + 32, place + 4
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
        buffer = (buffer << 8) | byte
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
def put_word(out: Any, place: Any, word: Any) -> Any:
    """Write the low 32 bits of a number at `place`, 0xFF stuffed; returns the place behind them."""
    at = np.uint64(place)
    for k in range(4):
        out[at + np.uint64(k)] = (word >> (24 - 8 * k)) & 0xFF
    if has_no_ff(word):
        return place + 4
    for k in range(4):
        byte = (word >> (24 - 8 * k)) & 0xFF
        place = put_byte(out, place, byte)
    return place


@kernel
def put_byte(out: Any, place: Any, byte: Any) -> Any:
    """Write a byte, 0xFF stuffed; returns the place behind it."""
    out[np.uint64(place)] = byte
    if byte == 0xFF:
        place += 1
        out[np.uint64(place)] = 0
    return place + 1


@kernel
def flush(out: Any, place: Any, buffer: Any, count: Any) -> Any:
    """Write the last `count` bits (0 to 31), and ones to the end of a byte (T.81, F.1.2.3)."""
    missing = -count & 7
    buffer, count = (buffer << missing) | ((1 << missing) - 1), count + missing
    while count > 0:
        count -= 8
        place = put_byte(out, place, (buffer >> count) & 0xFF)
    return place


@kernel
def has_no_ff(word: Any) -> bool:
    """Return whether no byte of the low 32 bits of a number is 0xFF."""
    other = ~word & 0xFFFFFFFF
    return bool((other - 0x01010101) & word & 0x80808080 == 0)


@kernel(twin="stoker.dataset.images.jpeg.bit_instructions:places_of")
def places_of(values: Any, at: Any) -> Any:
    """Return which of the 64 coefficients from `at` on are not zero, as bits of a uint64."""
    found = 0
    for k in range(64):
        found |= int(values[at + k] != 0) << k
    return np.uint64(found)


@kernel(twin="stoker.dataset.images.jpeg.bit_instructions:first_bit")
def first_bit(bits: Any) -> Any:
    """Return the number of the lowest bit that is set, of a uint64 that is not zero."""
    return (int(bits) & -int(bits)).bit_length() - 1


@kernel(twin="stoker.dataset.images.jpeg.bit_instructions:bit_length")
def bit_length(value: Any) -> Any:
    """Return the number of bits of a number that is not negative."""
    return int(value).bit_length()


@kernel
def category(value: Any) -> Any:
    """Return the number of bits in the magnitude of a number."""
    return bit_length(abs(value))
