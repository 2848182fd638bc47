"""Tables that decode one or two symbols, and the end of a block, in one lookup.

A table has an entry of 64 bits for each value of the next `LOOKUP_BITS` bits. A symbol counts with
its value bits. "Steps" are bytes from one coefficient, an int16 in zigzag order, to the next:

    bits  0-6 length   7 slow   8-15 first step   16-31 first value
    bits 32-47 second value   48-55 second step   56-63 126 if the block ends, else 0

If there is no second symbol, its step is 0 and its value is the first one. A slow entry, whose code
or value is longer than a lookup, is instead: 8-15 length of the code (0: longer than a lookup),
16-23 bits of the value, 24-31 step, 32-39 number of its canonical code.

The tables: DC and AC of luma, DC and AC of chroma, both AC again with one symbol for each lookup,
and one for positions behind an interval, whose entries have length 0. The AC tables with two
symbols serve where two cannot leave a block (`NEAR`). Codes are canonical (ITU-T T.81, annex C);
values are extended as in T.81, F.2.2.1. Compiled.
"""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.decoding.sizes import DC_MARK, ENTRIES, LOOKUP_BITS
from stoker.jit import kernel

NEAR: Final = 8
"""Coefficients that a lookup of two symbols spans at most; nearer to the end, single ones serve."""
LATE: Final = 4
STOP: Final = 6
SKIP: Final = 7
"""AC of luma and of chroma for blocks of which only DC is needed; `skipping` fills them."""
TABLES: Final = 9
CODE: Final = 300
"""Numbers of a canonical code: bounds by length from 0, offsets from 17, symbols from 34."""
OFFSETS, SYMBOLS = 17, 34
SLOW: Final = 128
ENDS: Final = 1 << 15
"""In an entry of a single symbol: the block ends."""
_STOP: Final = 2 << 8 | DC_MARK << 16 | DC_MARK << 32
_ANY: Final = 64


@kernel
def fill_tables(data: Any, place: Any, count: Any, tables: Any, codes: Any, single: Any) -> None:
    """Fill all tables from a DHT segment that `read_head` covers.

    Args:
        data: flat uint8, the file.
        place: of the segment's body.
        count: tables in it, 2 or 4.
        tables: (TABLES * ENTRIES,) int64; those from SKIP on are marked as not filled.
        codes: (4 * CODE,) int32.
        single: (2 * ENTRIES,) uint32, contents undefined.
    """
    dc, ac = single[:ENTRIES], single[ENTRIES:]
    for number in range(count):
        is_ac = number & 1
        _fill_single(data, place, is_ac, ac if is_ac else dc)
        _fill_code(data, place, codes, number)
        place = _following(data, place)
        if is_ac:
            fill_pairs(dc, ac, tables, (number - 1) * ENTRIES, (2, _ANY, number - 1))
            fill_pairs(ac, ac, tables, number * ENTRIES, (2 * NEAR, 2 * NEAR, number))
            fill_pairs(ac, ac, tables, (LATE + number // 2) * ENTRIES, (0, 0, number))
    for i in range(STOP * ENTRIES, SKIP * ENTRIES):
        tables[np.uint64(i)] = _STOP
    for i in range(SKIP, TABLES):
        tables[i * ENTRIES] = 0


@kernel
def _following(data: Any, place: Any) -> Any:
    symbols = np.int64(0)
    for length in range(1, 17):
        symbols += np.int64(data[place + length])
    return place + 17 + symbols


@kernel
def _fill_code(data: Any, place: Any, codes: Any, number: Any) -> None:
    """Fill the canonical code of a table: bounds are the first 16 bits beyond each length."""
    code, symbols, own = np.int64(0), np.int64(0), CODE * number
    for length in range(1, 17):
        count = np.int64(data[place + length])
        codes[own + OFFSETS + length] = symbols - code
        code += count
        symbols += count
        codes[own + length] = code << (16 - length)
        code <<= 1
    for i in range(symbols):
        codes[np.uint64(own + SYMBOLS + i)] = data[np.uint64(place + 17 + i)]


@kernel
def _fill_single(data: Any, place: Any, is_ac: Any, single: Any) -> None:
    """Fill a table of single symbols.

    Bits of an entry: 0-6 length, 7 slow, 8-14 step, 15 the block ends, 16-31 value. Slow: 8-15
    length of the code, 16-23 bits of the value, 24-31 step.
    """
    at, symbol = np.int64(0), place + 17
    for length in range(1, LOOKUP_BITS + 1):
        for _ in range(np.int64(data[place + length])):
            found = np.int64(data[symbol])
            symbol += 1
            size, step, ends, mark = found & 15, np.int64(2), 0, DC_MARK
            if is_ac:
                mark = 0
                if size == 0 and found != 0xF0:
                    ends = ENDS
                else:
                    step += 2 * (found >> 4)
            rest = LOOKUP_BITS - length - size
            if rest < 0:
                entry = SLOW | length << 8 | size << 16 | step << 24
                for _ in range(1 << (LOOKUP_BITS - length)):
                    single[np.uint64(at)] = np.uint32(entry)
                    at += 1
                continue
            for bits in range(1 << size):
                value = extended(bits, size) + mark
                entry = length + size | step << 8 | ends | (value & 0xFFFF) << 16
                for _ in range(1 << rest):
                    single[np.uint64(at)] = np.uint32(entry)
                    at += 1
    for i in range(at, ENTRIES):
        single[np.uint64(i)] = np.uint32(SLOW)


@kernel
def extended(bits: Any, size: Any) -> Any:
    """Return the number that `size` bits stand for (T.81, figure F.12); 0 for no bits."""
    if size > 0 and bits >> (size - 1) == 0:
        return bits - (1 << size) + 1
    return bits


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.pairs:fill_pairs")
def fill_pairs(first: Any, second: Any, tables: Any, at: Any, limits: Any) -> None:
    """Fill a table of one or two symbols.

    Args:
        first: (ENTRIES,) uint32, single symbols with which an entry begins.
        second: (ENTRIES,) uint32, single symbols that may follow.
        tables: flat int64.
        at: the table's first entry.
        limits: (greatest first step to be followed, greatest step of both, number of the code).
    """
    most, together, code = limits
    mask = ENTRIES - 1
    for window in range(ENTRIES):
        one = int(first[window])
        if one & SLOW:
            tables[at + window] = one | code << 32
            continue
        length, step, value = one & 127, (one >> 8) & 127, one >> 16
        two = int(second[(window << length) & mask])
        both = length + (two & 127)
        follows = not one & ENDS and step <= most and not two & SLOW and both <= LOOKUP_BITS
        ends, step2, value2 = bool(one & ENDS), 0, value
        if follows and two & ENDS:
            ends, length = True, both
        elif follows and step + ((two >> 8) & 127) <= together:
            step2, value2, length = (two >> 8) & 127, two >> 16, both
            three = int(second[(window << both) & mask])
            if three & (SLOW | ENDS) == ENDS and both + (three & 127) <= LOOKUP_BITS:
                ends, length = True, both + (three & 127)
        entry = length | step << 8 | value << 16 | value2 << 32 | step2 << 48 | ends * (126 << 56)
        tables[at + window] = entry
