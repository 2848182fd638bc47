"""Decoding of intervals of bit planes to coefficients. Compiled.

Coefficients go to the slots of `decoding.entropy`: differences of DC with a mark, and a mark behind
the last block. Positions follow from counts of bits of masks and planes that are there already, so
loads of many blocks are under way at the same time.

For any data, nothing is read later than `READ_AHEAD` bytes behind an interval, and nothing is
written outside of its slot and the work arrays: before bits are read, their number, which earlier
ones determine, is compared with what is left. Levels stay below 128: at most 8 from mask and low
planes, and 8 for each of 12 unary planes.
"""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.decoding.sizes import DC_MARK
from stoker.dataset.images.jpeg.decoding.unstuffing import ENDS, STARTS, STOPS
from stoker.dataset.images.jpeg.entropy_bits import first_bit
from stoker.dataset.images.jpeg.planes.plane_bits import (
    add_plane,
    begin_block,
    bit_count,
    deposit,
    end_block,
    few_bits,
    low_bits,
    next_bits,
)
from stoker.dataset.images.jpeg.planes.plane_form import (
    BASES,
    CODE_BITS,
    DC_BITS,
    LEAST_BITS,
    LEVELS,
    LOW_PLANES,
    MOST_ONES,
    MOST_WIDTH,
    RAW_BITS,
    RICE,
    WHOLE,
    WIDTH_BITS,
    WIDTHS,
)
from stoker.jit import kernel

_BLOCK: Final = 64
_FEW: Final = 57
"""Bits that `few_bits` gives."""


@kernel
def decode_plane_intervals(
    plain: Any, places: Any, count: Any, coefficients: Any, where: Any, shape: Any, parameters: Any
) -> Any:
    """Decode intervals to their slots; return whether all of them are intact.

    Args:
        plain: flat uint8, the intervals, and `READ_AHEAD` bytes behind them.
        places: (3, count or more) int64: the first bit of each interval, where its decoding ended,
            and the first bit behind it.
        count: intervals, at least 1.
        coefficients: flat int16, `count` slots.
        where: (blocks or more, 1 or more) int64: the component of each block first.
        shape: (bytes of a slot, blocks of an interval).
        parameters: from `read_parameters`.
    """
    slot, blocks = shape
    room = max(blocks, 1)
    work = (
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.uint64),
        np.empty(room, np.uint64),
        np.empty(_BLOCK * room, np.uint8),
    )
    for number in range(count):
        span = (places[STARTS, number], places[STOPS, number])
        to = number * slot // 2
        end = _decode_interval(plain, span, coefficients, to, where, blocks, parameters, work)
        if end < 0:
            return False
        places[ENDS, number] = end
    return True


@kernel
def _decode_interval(
    plain: Any, span: Any, coefficients: Any, to: Any, where: Any, blocks: Any, parameters: Any,
    work: Any,
) -> Any:  # fmt: skip
    """Decode an interval; return where it ended, or -1 if it is longer than its data.

    `work` has room for each block: bits of its mask; numbers of listed blocks; which of their
    coefficients have higher levels; signs; levels.
    """
    numbers, masks, steps = parameters
    lengths, _listed, _above, signs, levels = work
    begin, end = span
    at, total = _read_lengths(plain, span, where, lengths, blocks)
    at = _read_dc(plain, at, end, coefficients, to, where, blocks, numbers)
    firsts = (at, at + total, end)
    at, found, left = _read_blocks(plain, firsts, where, blocks, (masks, steps), work)
    if at > end:
        return -1
    level = 1
    while level < LEVELS and left > 0:
        if at + left > end:
            return -1
        length = left
        found, left = _read_level(plain, at, found, where, steps, work)
        at += length
        level += 1
    if at + RAW_BITS * left > end:
        return -1
    for block in range(blocks):
        target = to + _BLOCK * block
        difference = coefficients[np.uint64(target)]
        end_block(levels, _BLOCK * block, signs[np.uint64(block)], coefficients, target)
        coefficients[np.uint64(target)] = difference
    coefficients[np.uint64(to + _BLOCK * blocks)] = DC_MARK
    at = _read_large(plain, at, found, coefficients, to, work)
    return max(at, begin + LEAST_BITS)


@kernel
def _read_lengths(plain: Any, span: Any, where: Any, lengths: Any, blocks: Any) -> tuple[Any, Any]:
    """Read the length of each mask; return the place behind them, and their sum in bits.

    The place is behind the end if they are longer than the data.
    """
    at, end = span
    both = np.int64(low_bits(few_bits(plain, at), 2 * WIDTH_BITS))
    luma, chroma = both & MOST_WIDTH, both >> WIDTH_BITS
    at += 2 * WIDTH_BITS
    total = np.int64(0)
    if luma > CODE_BITS or chroma > CODE_BITS:
        return end + 1, total
    for block in range(blocks):
        if at > end:
            return at, total
        width = chroma if where[block, 0] > 0 else luma
        code = np.int64(low_bits(few_bits(plain, at), width))
        at += width
        length = 63 if code == WHOLE else 4 * code
        lengths[np.uint64(block)] = length
        total += length
    return at, total


@kernel
def _read_dc(
    plain: Any, at: Any, end: Any, coefficients: Any, to: Any, where: Any, blocks: Any, numbers: Any
) -> Any:
    """Read DC of each block, and store differences with a mark; return the place behind them."""
    seen = np.int64(0)
    for block in range(blocks):
        if at > end:
            return at
        i, window = where[block, 0], few_bits(plain, at)
        if seen >> i & 1:
            rice = numbers[RICE + i]
            ones = first_bit(~window | np.uint64(1 << MOST_ONES))
            if ones < MOST_ONES:
                rest = low_bits(window >> np.uint64(ones + 1), rice)
                code = ones << rice | np.int64(rest)
                at += ones + 1 + rice
            else:
                code = np.int64(low_bits(window >> np.uint64(MOST_ONES), DC_BITS))
                at += MOST_ONES + DC_BITS
            difference = code >> 1 ^ -(code & 1)
        else:
            seen |= 1 << i
            difference = numbers[BASES + i] + np.int64(low_bits(window, numbers[WIDTHS + i]))
            at += numbers[WIDTHS + i]
        coefficients[np.uint64(to + _BLOCK * block)] = difference + DC_MARK
    return at


@kernel
def _read_blocks(
    plain: Any, firsts: Any, where: Any, blocks: Any, tables: Any, work: Any
) -> tuple[Any, Any, Any]:
    """Read mask, signs, low planes and the first unary plane of each block.

    Returns:
        The place behind them, behind the end if they are longer than the data; how many blocks are
        listed, as they have higher levels; and how many coefficients have.
    """
    masks, steps = tables
    lengths, listed, above, signs, levels = work
    mask_at, at, end = firsts
    found, left = np.int64(0), np.int64(0)
    if at > end:
        return at, found, left
    for block in range(blocks):
        own = np.uint64(block)
        mask = low_bits(next_bits(plain, mask_at), lengths[own]) << np.uint64(1)
        mask_at += lengths[own]
        kind = min(where[block, 0], 1)
        first, size = np.uint64(LOW_PLANES * kind), bit_count(mask)
        low_0 = mask & masks[first]
        low_1 = mask & masks[first + np.uint64(1)]
        low_2 = mask & masks[first + np.uint64(2)]
        size_0, size_1, size_2 = bit_count(low_0), bit_count(low_1), bit_count(low_2)
        together = size + size_0 + size_1 + size_2
        if at + together + size > end:
            return end + 1, found, left
        window = few_bits(plain, at)
        sign = deposit(window, mask)
        at += together
        if together <= _FEW:
            window >>= np.uint64(size)
            low_0 = deposit(window, low_0)
            window >>= np.uint64(size_0)
            low_1 = deposit(window, low_1)
            low_2 = deposit(window >> np.uint64(size_1), low_2)
        else:
            sign = deposit(next_bits(plain, at - together), mask)
            low_0 = deposit(next_bits(plain, at - size_0 - size_1 - size_2), low_0)
            low_1 = deposit(next_bits(plain, at - size_1 - size_2), low_1)
            low_2 = deposit(next_bits(plain, at - size_2), low_2)
        plane = deposit(next_bits(plain, at), mask)
        at += size
        signs[own] = sign
        begin_block(levels, _BLOCK * block, (mask, low_0, low_1, low_2, plane), steps, 64 * kind)
        listed[np.uint64(found)], above[np.uint64(found)] = block, plane
        more = bit_count(plane)
        found += min(more, 1)
        left += more
    return at, found, left


@kernel
def _read_level(
    plain: Any, at: Any, count: Any, where: Any, steps: Any, work: Any
) -> tuple[Any, Any]:
    """Read a unary plane of the listed blocks; list those with higher levels again."""
    _, listed, above, _, levels = work
    found, left = np.int64(0), np.int64(0)
    for turn in range(np.uint64(count)):
        block, mask = listed[turn], above[turn]
        plane = deposit(next_bits(plain, at), mask)
        at += bit_count(mask)
        add_plane(levels, _BLOCK * block, plane, steps, _BLOCK * min(where[block, 0], 1))
        listed[np.uint64(found)], above[np.uint64(found)] = block, plane
        more = bit_count(plane)
        found += min(more, 1)
        left += more
    return found, left


@kernel
def _read_large(plain: Any, at: Any, count: Any, coefficients: Any, to: Any, work: Any) -> Any:
    """Read the coefficients that are written out; return the place behind them."""
    _, listed, above, signs, _ = work
    for turn in range(count):
        block, mask = listed[np.uint64(turn)], above[np.uint64(turn)]
        while mask != np.uint64(0):
            k = first_bit(mask)
            mask &= mask - np.uint64(1)
            value = np.int64(low_bits(few_bits(plain, at), RAW_BITS)) + 1
            at += RAW_BITS
            is_negative = np.int64(signs[np.uint64(block)] >> np.uint64(k)) & 1
            target = np.uint64(to + _BLOCK * block + k)
            coefficients[target] = -value if is_negative else value
    return at
