"""Coding of coefficients as intervals of bit planes. Compiled; runs in packing workers."""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.coefficients import Coefficients, block_number
from stoker.dataset.images.jpeg.entropy_bits import bit_length, first_bit, places_of
from stoker.dataset.images.jpeg.planes.plane_form import (
    BASES,
    CLASSES,
    DC_BITS,
    LEAST_BITS,
    LEVELS,
    LOW_PLANES,
    MOST_DC_WIDTH,
    MOST_ONES,
    NUMBERS,
    RAW_BITS,
    RICE,
    WHOLE,
    WIDTH_BITS,
    WIDTHS,
)
from stoker.jit import compiled, kernel

_SHIFTS: Final = LOW_PLANES + 1
_RICES: Final = MOST_DC_WIDTH + 1
_LOWEST, _HIGHEST = 0, 1
_FIXED_BITS: Final = 4 + 63
"""Most bits of a block's length and mask."""


def write_planes(
    coefficients: Coefficients, shape: np.ndarray, interval: int
) -> tuple[bytes, np.ndarray, np.ndarray, np.ndarray]:
    """Code all blocks of an image.

    Args:
        coefficients: of the image.
        shape: (components, 5) as for `grid_rewrite`: sampling h and v, block columns, first number,
            and the class of the component.
        interval: MCUs.

    Returns:
        The intervals, their offsets and the end, and the parameters (`parameters_of`).
    """
    sizes = np.array([coefficients.mcu_columns, coefficients.mcu_rows, interval], np.int64)
    firsts = np.array([[2**15, -(2**15)]] * len(shape), np.int64)
    rices = np.zeros((len(shape), _RICES), np.int64)
    costs = np.zeros((CLASSES, 64, _SHIFTS), np.int64)
    compiled(_measure)(coefficients.values, shape, sizes, firsts, rices, costs)
    numbers, shifts = np.zeros(NUMBERS, np.int64), np.argmin(costs, axis=2)
    for i, (low, high) in enumerate(firsts.tolist()):
        numbers[WIDTHS + i], numbers[BASES + i] = (high - low).bit_length(), low
        numbers[RICE + i] = np.argmin(rices[i])
    count = coefficients.mcu_columns // interval * coefficients.mcu_rows
    blocks = coefficients.values.size // 64
    bits = int(costs.min(2).sum() + rices.min(1).sum())
    bits += blocks * (_FIXED_BITS + 64) + count * (24 + int(numbers[WIDTHS:BASES].sum()))
    out = np.zeros(bits // 8 + 8, np.uint8)
    offsets = np.zeros(count + 1, np.int64)
    values = coefficients.values
    compiled(_write)(values, shape, sizes, numbers, shifts.astype(np.int64), out, offsets)
    return out[: offsets[-1]].tobytes(), offsets, numbers, shifts


@kernel
def _place(shape: Any, sizes: Any, number: Any, i: Any, k: Any) -> Any:
    """Return where block `k` of a component begins, in MCU `number`."""
    y, x = number // sizes[0], number % sizes[0]
    return shape[i, 3] + 64 * block_number(y, x, k, (shape[i, 0], shape[i, 1]), shape[i, 2])


@kernel
def _measure(values: Any, shape: Any, sizes: Any, firsts: Any, rices: Any, costs: Any) -> None:
    """Measure what parameters would cost, in bits.

    Args:
        values: flat int16, all coefficients.
        shape: as for `write_planes`.
        sizes: MCU columns and rows, MCUs of an interval.
        firsts: (components, 2), receives the least and the greatest DC at the begin of intervals.
        rices: (components, _RICES), receives the bits of DC for each parameter.
        costs: (CLASSES, 64, _SHIFTS), receives those of coefficients by low bits; zeros before.
    """
    last = np.zeros(3, np.int64)
    for number in range(sizes[0] * sizes[1]):
        for i in range(shape.shape[0]):
            for k in range(shape[i, 0] * shape[i, 1]):
                at = _place(shape, sizes, number, i, k)
                value = np.int64(values[np.uint64(at)])
                if number % sizes[2] == 0 and k == 0:
                    firsts[i, _LOWEST] = min(firsts[i, _LOWEST], value)
                    firsts[i, _HIGHEST] = max(firsts[i, _HIGHEST], value)
                else:
                    code = _unsigned(value - last[i])
                    for rice in range(_RICES):
                        rices[i, rice] += _rice_bits(code, rice)
                last[i] = value
                _measure_block(values, at, costs[min(i, 1)])


@kernel
def _measure_block(values: Any, at: Any, costs: Any) -> None:
    """Add the bits of a block's coefficients to the costs of its class."""
    places = places_of(values, at) & ~np.uint64(1)
    while places != np.uint64(0):
        k = first_bit(places)
        places &= places - np.uint64(1)
        rest = abs(np.int64(values[np.uint64(at + k)])) - 1
        for shift in range(_SHIFTS):
            levels = rest >> shift
            bits = levels + 1 if levels < LEVELS else LEVELS + RAW_BITS
            costs[np.uint64(k), np.uint64(shift)] += shift + bits


@kernel
def _unsigned(difference: Any) -> Any:
    """Return a difference with its sign in the lowest bit."""
    return difference << 1 if difference >= 0 else -2 * difference - 1


@kernel
def _rice_bits(code: Any, rice: Any) -> Any:
    ones = code >> rice
    return ones + 1 + rice if ones < MOST_ONES else np.int64(MOST_ONES + DC_BITS)


@kernel
def _put(out: Any, at: Any, bits: Any, count: Any) -> Any:
    """Write the lowest bits of a uint64 at bit `at` of zeros; return the place behind them."""
    rest = np.int64(count)
    while rest > 0:
        offset = at & 7
        took = min(rest, 8 - offset)
        mask = np.uint64((1 << took) - 1)
        out[np.uint64(at >> 3)] |= np.uint8((bits & mask) << np.uint64(offset))
        bits >>= np.uint64(took)
        at += took
        rest -= took
    return at


@kernel
def _write(
    values: Any, shape: Any, sizes: Any, numbers: Any, shifts: Any, out: Any, offsets: Any
) -> None:
    """Write all intervals; arguments as for `_measure`, and parameters, room and offsets."""
    per_mcu = np.int64(0)
    for i in range(shape.shape[0]):
        per_mcu += shape[i, 0] * shape[i, 1]
    blocks = per_mcu * sizes[2]
    starts, parts = np.empty(blocks, np.int64), np.empty(blocks, np.int64)
    at = np.int64(0)
    for turn in range(offsets.size - 1):
        offsets[turn] = at >> 3
        own = np.int64(0)
        for number in range(turn * sizes[2], (turn + 1) * sizes[2]):
            for i in range(shape.shape[0]):
                for k in range(shape[i, 0] * shape[i, 1]):
                    starts[own], parts[own] = _place(shape, sizes, number, i, k), i
                    own += 1
        at = _write_interval(values, starts, parts, numbers, shifts, out, at)
        at = (at + 7) >> 3 << 3
    offsets[offsets.size - 1] = at >> 3


@kernel
def _write_interval(
    values: Any, starts: Any, parts: Any, numbers: Any, shifts: Any, out: Any, at: Any
) -> Any:
    """Write an interval, whose blocks begin at `starts`; return the place behind it."""
    begin, masks, widths = at, np.empty(starts.size, np.uint64), np.zeros(2, np.int64)
    for n in range(starts.size):
        masks[n] = places_of(values, starts[n]) & ~np.uint64(1)
        own = min(parts[n], 1)
        widths[own] = max(widths[own], bit_length(_code_of(masks[n])))
    at = _put(out, at, np.uint64(widths[0] | widths[1] << WIDTH_BITS), 2 * WIDTH_BITS)
    for n in range(starts.size):
        at = _put(out, at, np.uint64(_code_of(masks[n])), widths[min(parts[n], 1)])
    at = _write_dc(values, starts, parts, numbers, out, at)
    for n in range(starts.size):
        code = _code_of(masks[n])
        at = _put(out, at, masks[n] >> np.uint64(1), 63 if code == WHOLE else 4 * code)
    for n in range(starts.size):
        own = shifts[min(parts[n], 1)]
        at = _put_signs(values, starts[n], masks[n], out, at)
        for plane in range(LOW_PLANES):
            at = _put_low(values, starts[n], masks[n], own, plane, out, at)
        masks[n], at = _put_level(values, starts[n], masks[n], own, 0, out, at)
    for level in range(1, LEVELS):
        for n in range(starts.size):
            own = shifts[min(parts[n], 1)]
            masks[n], at = _put_level(values, starts[n], masks[n], own, level, out, at)
    for n in range(starts.size):
        at = _put_large(values, starts[n], masks[n], out, at)
    return max(at, begin + LEAST_BITS)


@kernel
def _code_of(mask: Any) -> Any:
    """Return the code of a mask's length: of the bits from 1 on to the last one that is set."""
    return min((bit_length(np.int64(mask >> np.uint64(1))) + 3) // 4, WHOLE)


@kernel
def _write_dc(values: Any, starts: Any, parts: Any, numbers: Any, out: Any, at: Any) -> Any:
    """Write DC of all blocks of an interval."""
    last, seen = np.zeros(3, np.int64), np.int64(0)
    for n in range(starts.size):
        i, value = parts[n], np.int64(values[np.uint64(starts[n])])
        if seen >> i & 1:
            code, rice = _unsigned(value - last[i]), numbers[RICE + i]
            ones = code >> rice
            if ones < MOST_ONES:
                at = _put(out, at, np.uint64((1 << ones) - 1), ones + 1)
                at = _put(out, at, np.uint64(code), rice)
            else:
                at = _put(out, at, np.uint64((1 << MOST_ONES) - 1), MOST_ONES)
                at = _put(out, at, np.uint64(code), DC_BITS)
        else:
            seen |= 1 << i
            at = _put(out, at, np.uint64(value - numbers[BASES + i]), numbers[WIDTHS + i])
        last[i] = value
    return at


@kernel
def _put_signs(values: Any, start: Any, mask: Any, out: Any, at: Any) -> Any:
    """Write the signs of a block."""
    bits, turn = np.uint64(0), np.uint64(0)
    while mask != np.uint64(0):
        k = first_bit(mask)
        mask &= mask - np.uint64(1)
        bits |= np.uint64(values[np.uint64(start + k)] < 0) << turn
        turn += np.uint64(1)
    return _put(out, at, bits, turn)


@kernel
def _put_low(values: Any, start: Any, mask: Any, shifts: Any, plane: Any, out: Any, at: Any) -> Any:
    """Write a low plane of a block: a bit of each coefficient that has it."""
    bits, turn = np.uint64(0), np.uint64(0)
    while mask != np.uint64(0):
        k = first_bit(mask)
        mask &= mask - np.uint64(1)
        if shifts[np.uint64(k)] > plane:
            rest = abs(np.int64(values[np.uint64(start + k)])) - 1
            bits |= np.uint64(rest >> plane & 1) << turn
            turn += np.uint64(1)
    return _put(out, at, bits, turn)


@kernel
def _put_level(
    values: Any, start: Any, mask: Any, shifts: Any, level: Any, out: Any, at: Any
) -> Any:
    """Write a unary plane of a block; return which coefficients are above it, and the place."""
    bits, turn, above, left = np.uint64(0), np.uint64(0), np.uint64(0), mask
    while left != np.uint64(0):
        k = first_bit(left)
        left &= left - np.uint64(1)
        rest = abs(np.int64(values[np.uint64(start + k)])) - 1
        if rest >> shifts[np.uint64(k)] > level:
            bits |= np.uint64(1) << turn
            above |= np.uint64(1) << np.uint64(k)
        turn += np.uint64(1)
    return above, _put(out, at, bits, turn)


@kernel
def _put_large(values: Any, start: Any, mask: Any, out: Any, at: Any) -> Any:
    """Write out the coefficients of a block that are above all unary planes."""
    while mask != np.uint64(0):
        k = first_bit(mask)
        mask &= mask - np.uint64(1)
        rest = abs(np.int64(values[np.uint64(start + k)])) - 1
        at = _put(out, at, np.uint64(rest), RAW_BITS)
    return at
