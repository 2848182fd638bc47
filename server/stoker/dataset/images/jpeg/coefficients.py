"""Decoding of a JPEG's scans to its quantized coefficients, compiled: baseline and progressive.

Coefficients are int16, 64 per block in zigzag order as they are coded, blocks in rows of a whole
number of MCUs, one component after the other. Follows ITU-T T.81, annexes F and G. It is stricter
than decoders are: any deviation from the standard ends it with a reason, because a file that
decoders repair must not be rewritten. Nothing is written outside of the arrays, for any data.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.entropy_bits import (
    BUFFER,
    COUNT,
    LOOKAHEAD,
    MADE_UP,
    PLACE,
    more,
    overrun,
    realign,
    signed,
    symbol,
    take,
)
from stoker.dataset.images.jpeg.huffman import SHORT, lookup, short_codes
from stoker.dataset.images.jpeg.segments import Scan, Segments
from stoker.dataset.limits import CodecError
from stoker.jit import compiled, kernel

REASONS: Final = (
    "",
    "bits that are not a code",
    "a run of coefficients beyond its block",
    "a coefficient that is too large",
    "a restart marker is missing or out of turn",
    "its data ends early",
    "data after the end of a scan",
)
NOTHING_YET: Final = 99
GOOD, NO_CODE, BEYOND, TOO_LARGE, NO_RESTART, ENDS_EARLY, LEFT_OVER = range(7)


@dataclass(frozen=True)
class Plane:
    """The blocks of a component: `columns` x `rows` with padding, `across` x `down` real ones."""

    h: int
    v: int
    columns: int
    rows: int
    across: int
    down: int
    start: int

    @property
    def blocks(self) -> int:
        """Number of blocks, including padding."""
        return self.columns * self.rows


@dataclass(frozen=True)
class Coefficients:
    """All coefficients of an image, flat int16, and the planes of its components."""

    values: np.ndarray
    planes: tuple[Plane, ...]
    mcu_columns: int
    mcu_rows: int


def ceil_div(a: int, b: int) -> int:
    """Return a / b, rounded up."""
    return -(-a // b)


def planes_of(found: Segments) -> tuple[tuple[Plane, ...], int, int]:
    """Lay out the components of a frame: (planes, MCU columns, MCU rows)."""
    h_max, v_max = found.h_max, found.v_max
    columns = ceil_div(found.width, 8 * h_max)
    rows = ceil_div(found.height, 8 * v_max)
    planes, start = [], 0
    for part in found.components:
        across = ceil_div(ceil_div(found.width * part.h, h_max), 8)
        down = ceil_div(ceil_div(found.height * part.v, v_max), 8)
        planes.append(Plane(part.h, part.v, columns * part.h, rows * part.v, across, down, start))
        start += 64 * planes[-1].blocks
    return tuple(planes), columns, rows


def read_coefficients(data: bytes, found: Segments) -> Coefficients:
    """Decode all scans of a file.

    Raises:
        CodecError: the data is damaged; the text says how.
    """
    planes, columns, rows = planes_of(found)
    values = np.zeros(sum(64 * plane.blocks for plane in planes), np.int16)
    view = np.frombuffer(data, np.uint8)
    lowest = np.full((len(planes), 64), NOTHING_YET)
    tables = np.zeros((2, len(planes), 1 << 16), np.uint16)
    for scan in found.scans:
        _check_band(scan, found.progressive, lowest)
        shape = np.zeros((len(scan.parts), 6), np.int64)
        for i, part in enumerate(scan.parts):
            plane = planes[part.component]
            shape[i] = plane.h, plane.v, plane.columns, plane.across, plane.down, plane.start
            for kind, table in enumerate((part.dc, part.ac)):
                if _uses(scan, kind) and table is None:
                    raise CodecError("it is damaged: a Huffman table is missing")
                tables[kind, i] = 0
                if table is not None:
                    lookup(table, tables[kind, i])
        band = np.array([scan.first, scan.last, scan.high, scan.low], np.int64)
        sizes = np.array([columns, rows, scan.restart, found.progressive], np.int64)
        short = short_codes(tables[1])
        code = compiled(_scan)(
            view[: scan.end], scan.start, tables, short, shape, band, sizes, values
        )
        if code:
            raise CodecError(f"it is damaged: {REASONS[code]}")
    if lowest.any():
        raise CodecError("it is incomplete: bits of some coefficients are missing")
    return Coefficients(values, planes, columns, rows)


def _uses(scan: Scan, kind: int) -> bool:
    return scan.last > 0 if kind else scan.first == 0 and scan.high == 0


def _check_band(scan: Scan, progressive: bool, lowest: np.ndarray) -> None:
    """Check that each bit of each coefficient comes once and in order (T.81, G.1.1.1).

    `lowest` has, per component and coefficient, the lowest bit so far.
    """
    if not progressive:
        good = (scan.first, scan.last, scan.high, scan.low) == (0, 63, 0, 0)
    elif scan.first == 0:
        good = scan.last == 0
    else:
        good = scan.first <= scan.last <= 63 and len(scan.parts) == 1
    before = NOTHING_YET if scan.high == 0 else scan.high
    for part in scan.parts:
        bits = lowest[part.component, scan.first : scan.last + 1]
        good = good and bool((bits == before).all())
        bits[:] = scan.low
    if not good or scan.low > 13 or (scan.high and scan.low != scan.high - 1):
        raise CodecError("it is damaged: a scan is out of turn")


@kernel
def block_number(y: Any, x: Any, k: Any, sampling: Any, columns: Any) -> Any:
    """Return the number of a block among those of its component, row by row.

    Args:
        y: row of the MCU.
        x: column of the MCU.
        k: number of the block among those that the MCU has of the component.
        sampling: blocks of the component (across, down) in an MCU.
        columns: blocks of the component in a row.
    """
    wide, high = sampling
    return (y * high + k // wide) * columns + x * wide + k % wide


@kernel
def _scan(
    data: Any, start: int, codes: Any, short: Any, shape: Any, band: Any, sizes: Any, values: Any
) -> int:
    """Decode a scan; returns a code of REASONS.

    Args:
        data: the file up to the scan's end.
        start: where the scan's data begins.
        codes: (2, parts, 2^16) tables: of first coefficients, and of all others.
        short: (parts, 2^10) `short_codes` of the latter.
        shape: (parts, 6): sampling h and v, block columns, real columns and rows, first number.
        band: first and last coefficient, high and low bit.
        sizes: MCU columns and rows, restart interval, whether progressive.
        values: all coefficients.
    """
    # Shared by all blocks: data, reader, last DC coefficients, remaining blocks of an end-of-band
    # run.
    state, last_dc = np.zeros(4, np.int64), np.zeros(shape.shape[0], np.int64)
    state[PLACE] = start
    run = np.zeros(1, np.int64)
    source = (data, data.size, state, last_dc, run)
    across, down = sizes[0], sizes[1]
    if shape.shape[0] == 1:
        across, down = shape[0, 3], shape[0, 4]
    for number in range(across * down):
        if sizes[2] and number and number % sizes[2] == 0:
            code = _restart(source, number // sizes[2] - 1)
            if code:
                return code
        y, x = number // across, number % across
        code = _mcu(source, (codes[0], codes[1], short), shape, band, sizes[3], values, y, x)
        if code:
            return code
        if overrun(state):
            return ENDS_EARLY
    if run[0]:
        return BEYOND
    if not realign(state) or state[PLACE] != data.size:
        return LEFT_OVER
    return GOOD


@kernel
def _mcu(
    source: Any, tables: Any, shape: Any, band: Any, progressive: Any, values: Any, y: Any, x: Any
) -> int:
    """Decode the blocks of an MCU; in a scan of one component that is one block."""
    dc, ac, short = tables
    parts = shape.shape[0]
    for i in range(parts):
        wide, high = np.int64(1), np.int64(1)
        if parts > 1:
            wide, high = shape[i, 0], shape[i, 1]
        for k in range(wide * high):
            at = shape[i, 5] + 64 * block_number(y, x, k, (wide, high), shape[i, 2])
            block = values[at : at + 64]
            if progressive:
                code = _band(source, dc[i], ac[i], band, i, block)
            else:
                code = _sequential(source, dc[i], ac[i], short[i], i, block)
            if code:
                return code
    return GOOD


@kernel
def _restart(source: Any, turn: Any) -> int:
    """Skip restart marker number `turn`; the marker may be padded with 0xFF."""
    data, end, state, last_dc, run = source
    if run[0]:
        return BEYOND
    if not realign(state):
        return LEFT_OVER
    at = state[PLACE]
    while at + 1 < end and data[at] == 0xFF and data[at + 1] == 0xFF:
        at += 1
    if at + 1 >= end or data[at] != 0xFF or data[at + 1] != 0xD0 + (turn & 7):
        return NO_RESTART
    state[PLACE] = at + 2
    last_dc[:] = 0
    return GOOD


@kernel
def _dc(source: Any, table: Any, part: int, low: Any, block: Any) -> int:
    """Decode a DC coefficient: the difference from the previous block (F.2.2.1)."""
    data, end, state, last_dc, _ = source
    bits = symbol(data, end, state, table)
    if bits < 0:
        return NO_CODE
    if bits > 11:
        return TOO_LARGE
    last_dc[part] += signed(data, end, state, bits)
    value = last_dc[part] << low
    if value < -32768 or value > 32767:
        return TOO_LARGE
    block[0] = value
    return GOOD


@kernel
def _sequential(source: Any, dc: Any, ac: Any, short: Any, part: int, block: Any) -> int:
    """Decode a whole block (F.2.2)."""
    code = _dc(source, dc, part, 0, block)
    if code:
        return code
    # The reader's state is kept in local variables: this loop does most of the work.
    data, end, state, _, _ = source
    place, buffer, count, made_up = state[PLACE], state[BUFFER], state[COUNT], state[MADE_UP]
    k = np.int64(1)
    while k < 64:
        if count < 32:
            place, buffer, count, made_up = more(data, end, place, buffer, count, made_up)
        found = np.int64(short[np.uint64((buffer >> (count - SHORT)) & 0x3FF)])
        if found == 0:
            found = np.int64(ac[np.uint64((buffer >> (count - LOOKAHEAD)) & 0xFFFF)])
            if found == 0:
                return NO_CODE
        run, bits = (found >> 4) & 15, found & 15
        count -= found >> 8
        if bits == 0:
            if run != 15:
                break
            k += 16
            continue
        k += run
        if k > 63:
            return BEYOND
        count -= bits
        value = (buffer >> count) & ((1 << bits) - 1)
        if value < (1 << (bits - 1)):
            value += 1 - (1 << bits)
        block[np.uint64(k)] = value
        k += 1
    state[PLACE], state[BUFFER], state[COUNT], state[MADE_UP] = place, buffer, count, made_up
    return GOOD if k <= 64 else BEYOND


@kernel
def _band(source: Any, dc: Any, ac: Any, band: Any, part: int, block: Any) -> int:
    """Decode the part of a block that is in a progressive scan (annex G)."""
    if band[0] == 0:
        if band[2] == 0:
            return _dc(source, dc, part, band[3], block)
        if take(source[0], source[1], source[2], 1):
            block[0] |= np.int16(1 << band[3])
        return GOOD
    if band[2] == 0:
        return _first_bits(source, ac, band, block)
    return _next_bit(source, ac, band, block)


@kernel
def _first_bits(source: Any, ac: Any, band: Any, block: Any) -> int:
    """Decode the first bits of a band (G.1.2.2); `run`: blocks left in an end-of-band run."""
    data, end, state, _, run = source
    if run[0]:
        run[0] -= 1
        return GOOD
    k, last, low = band[0], band[1], band[3]
    while k <= last:
        found = symbol(data, end, state, ac)
        if found < 0:
            return NO_CODE
        zeros, bits = found >> 4, found & 15
        if bits == 0:
            if zeros < 15:
                run[0] = (1 << zeros) + take(data, end, state, zeros) - 1
                return GOOD
            k += 16
            continue
        k += zeros
        if k > last:
            return BEYOND
        value = signed(data, end, state, bits) << low
        if value < -32768 or value > 32767:
            return TOO_LARGE
        block[k] = value
        k += 1
    return GOOD if k == last + 1 else BEYOND


@kernel
def _next_bit(source: Any, ac: Any, band: Any, block: Any) -> int:
    """Decode one more bit of a band (G.1.2.3)."""
    data, end, state, _, run = source
    k, last, one = band[0], band[1], np.int64(1) << band[3]
    if run[0] == 0:
        while k <= last:
            found = symbol(data, end, state, ac)
            if found < 0:
                return NO_CODE
            zeros, bits = found >> 4, found & 15
            fresh = np.int64(0)
            if bits == 1:
                fresh = one if take(data, end, state, 1) else -one
            elif bits:
                return TOO_LARGE
            elif zeros < 15:
                run[0] = (1 << zeros) + take(data, end, state, zeros)
                break
            k = _refine(source, k, last, zeros, one, block)
            if k > last:
                return BEYOND
            if fresh:
                block[k] = fresh
            k += 1
    if run[0]:
        _refine(source, k, last, 64, one, block)
        run[0] -= 1
    return GOOD


@kernel
def _refine(source: Any, k: Any, last: Any, zeros: Any, one: Any, block: Any) -> Any:
    """Refine nonzero coefficients from k on, skip `zeros` zeros, return the next zero's place."""
    data, end, state, _, _ = source
    while k <= last:
        value = np.int64(block[k])
        if value == 0:
            if zeros == 0:
                return k
            zeros -= 1
        elif take(data, end, state, 1) and value & one == 0:
            block[k] = value + one if value > 0 else value - one
        k += 1
    return k
