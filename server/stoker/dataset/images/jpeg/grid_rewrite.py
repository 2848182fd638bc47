"""Lossless rewriting of a JPEG onto a grid of restart intervals.

The quantized coefficients stay the same, so every decoder gives the same pixels. They are coded
again: baseline, one interleaved scan, a restart marker after every `interval` MCUs, and Huffman
tables optimized for this image, which pay for the markers. Order of the new file: JFIF segment, the
other APPn and comments, then everything that decoding needs. A progressive file becomes baseline.
"""

import struct
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.checksums import checksums_of
from stoker.dataset.images.jpeg.coefficients import Coefficients, block_number, read_coefficients
from stoker.dataset.images.jpeg.entropy_bits import category, first_bit, flush, places_of, put_word
from stoker.dataset.images.jpeg.grid import Grid
from stoker.dataset.images.jpeg.huffman import body_of, codes_of
from stoker.dataset.images.jpeg.segments import (
    EOI,
    SOI,
    HuffmanTable,
    Segments,
    UnindexableError,
    read_segments,
)
from stoker.dataset.images.jpeg.table_choice import chosen_tables
from stoker.jit import compiled, kernel

NEAR: Final = 32
"""Preferred width of an interval in pixels: in narrower intervals a window decodes less beyond its
box, but each interval costs two to three bytes and an offset."""
TOO_LARGE: Final = -1
_ADOBE: Final = 0xEE


@dataclass(frozen=True)
class Rewritten:
    """A rewritten file and its grid."""

    data: bytes
    grid: Grid


def interval_of(columns: int, mcu_width: int) -> int:
    """Return the divisor of the MCU columns that is nearest to 32 pixels; the larger of two."""
    divisors = [d for d in range(1, columns + 1) if columns % d == 0]
    return min(divisors, key=lambda d: (abs(d * mcu_width - NEAR), -d))


@dataclass(frozen=True)
class GriddedHead:
    """The head of a gridded file, without the segment that the coding of its intervals needs.

    Attributes:
        prefix: the bytes up to the end of the frame.
        suffix: DRI and SOS.
        grid: the grid, whose offsets and checksums do not count.
    """

    prefix: bytes
    suffix: bytes
    grid: Grid

    def joined(self, coding: bytes, intervals: bytes, offsets: np.ndarray) -> Rewritten:
        """Return the file of this head, a segment and intervals, whose offsets count from 0."""
        before = self.prefix + coding + self.suffix
        made = before + intervals
        grid = replace(self.grid, offsets=(offsets + len(before)).astype(np.uint32))
        room = np.zeros(offsets.size + 1, np.uint32)
        with_room = replace(grid, checksums=room).to_bytes()
        return Rewritten(made, replace(grid, checksums=checksums_of(made, with_room)))


def rewrite(data: bytes) -> Rewritten:
    """Rewrite a JPEG on a grid.

    Raises:
        UnindexableError: files of this kind cannot be rewritten.
        CodecError: it is damaged.
    """
    found = read_segments(data)
    coefficients = read_coefficients(data, found)
    interval = interval_of(coefficients.mcu_columns, 8 * found.h_max)
    jfif, others, adobe = _sorted(found)
    before = SOI + jfif + others
    tables = b"".join([*adobe, _quantizers(found)])
    grid = Grid(
        8 * found.h_max,
        8 * found.v_max,
        interval,
        coefficients.mcu_columns // interval,
        coefficients.mcu_rows,
        2 + len(jfif),
        len(before),
        len(before) + len(tables) + 5,
        np.zeros(0, np.uint32),
    )
    suffix = _restart(interval) + _scan_head(found)
    return huffman_coded(GriddedHead(before + tables + _frame(found), suffix, grid), coefficients)


def huffman_coded(head: GriddedHead, coefficients: Coefficients) -> Rewritten:
    """Return the gridded JPEG of an image.

    Raises:
        UnindexableError: a coefficient is too large.
    """
    scan, tables, offsets = _encode(coefficients, shape_of(coefficients), head.grid.interval)
    return head.joined(marker_segment(0xC4, body_of(tables)), scan + EOI, offsets)


def shape_of(coefficients: Coefficients) -> np.ndarray:
    """Return (sampling h and v, block columns, first number, class) of each component."""
    planes = enumerate(coefficients.planes)
    rows = [(plane.h, plane.v, plane.columns, plane.start, min(i, 1)) for i, plane in planes]
    return np.array(rows, np.int64)


def _encode(
    coefficients: Coefficients, shape: np.ndarray, interval: int
) -> tuple[bytes, list[HuffmanTable], np.ndarray]:
    """Code all blocks: (scan, tables DC, AC, DC, AC, offsets of intervals and of the end)."""
    sizes = np.array([coefficients.mcu_columns, coefficients.mcu_rows, interval], np.int64)
    intervals = coefficients.mcu_columns // interval * coefficients.mcu_rows
    offsets = np.zeros(intervals + 1, np.int64)
    tokens = np.empty(coefficients.values.size + 1, np.uint32)
    counts = np.zeros(4 * 256, np.int64)
    count = compiled(_tokens)(coefficients.values, shape, sizes, tokens, counts, offsets)
    if count == TOO_LARGE:
        raise UnindexableError("a coefficient that baseline files cannot hold")
    symbols = counts.reshape(4, 256)
    used = 4 if len(coefficients.planes) > 1 else 2
    tables = chosen_tables(symbols[:used])
    codes, lengths = np.zeros(1024, np.int64), np.zeros(1024, np.int64)
    for i, table in enumerate(tables):
        codes[256 * i : 256 * (i + 1)], lengths[256 * i : 256 * (i + 1)] = codes_of(table)
    numbers = np.arange(1024) & 15  # bits behind the code of each symbol
    bits = int(((lengths + numbers) * counts).sum())
    out = np.empty(2 * (bits // 8 + intervals) + 2 * intervals + 8, np.uint8)  # all bytes stuffed
    end = compiled(_write)(tokens, codes, lengths, out, offsets)
    return out[:end].tobytes(), tables, offsets


@kernel
def _tokens(values: Any, shape: Any, sizes: Any, tokens: Any, counts: Any, starts: Any) -> Any:
    """Convert all blocks to tokens; returns their number, or TOO_LARGE.

    A token has the table and the symbol (10 bits), how many bits follow the code (4), and these.

    Args:
        values: all coefficients.
        shape: (components, 5): sampling h and v, block columns, first coefficient, table.
        sizes: MCU columns and rows, MCUs of an interval.
        tokens: room for one token per coefficient.
        counts: receives how often each table and symbol occurs; zeros before.
        starts: receives the first token of each interval, and the number of tokens.
    """
    last_dc, end = np.zeros(shape.shape[0], np.int64), np.int64(0)
    for number in range(sizes[0] * sizes[1]):
        if number % sizes[2] == 0:
            starts[number // sizes[2]] = end
            last_dc[:] = 0
        y, x = number // sizes[0], number % sizes[0]
        for i in range(shape.shape[0]):
            sampling = (shape[i, 0], shape[i, 1])
            for k in range(sampling[0] * sampling[1]):
                at = shape[i, 3] + 64 * block_number(y, x, k, sampling, shape[i, 2])
                difference = values[at] - last_dc[i]
                end = _block(values, at, difference, 512 * shape[i, 4], tokens, counts, end)
                if end < 0:
                    return TOO_LARGE
                last_dc[i] = values[at]
    starts[starts.size - 1] = end
    return end


@kernel
def _block(
    values: Any, at: Any, difference: Any, table: Any, tokens: Any, counts: Any, end: Any
) -> Any:
    """Convert the block at `at` to tokens from place `end` on (T.81, F.1.2); returns the new end.

    The places of coefficients that are not zero are found first, as bits of a number: a branch for
    each coefficient would often be predicted wrong.
    """
    bits = category(difference)
    if bits > 11:
        return TOO_LARGE
    end = _token(table, bits, difference, bits, tokens, counts, end)
    places, before = places_of(values, at) & ~np.uint64(1), np.int64(0)
    while places:
        k = first_bit(places)
        places &= places - np.uint64(1)
        value = np.int64(values[np.uint64(at + k)])
        bits = category(value)
        if bits > 10:
            return TOO_LARGE
        zeros = k - before - 1
        while zeros > 15:
            end = _token(table, 256 + 0xF0, 0, 0, tokens, counts, end)
            zeros -= 16
        end = _token(table, 256 + (zeros << 4 | bits), value, bits, tokens, counts, end)
        before = k
    if before < 63:
        end = _token(table, 256, 0, 0, tokens, counts, end)
    return end


@kernel
def _token(
    table: Any, symbol: Any, value: Any, bits: Any, tokens: Any, counts: Any, end: Any
) -> Any:
    """Write one token and count its symbol; returns the new end."""
    number = (value + (value >> 63)) & ((1 << bits) - 1)
    tokens[np.uint64(end)] = np.uint32(table + symbol | bits << 10 | number << 14)
    counts[np.uint64(table + symbol)] += 1
    return end + 1


@kernel
def _write(tokens: Any, codes: Any, lengths: Any, out: Any, offsets: Any) -> Any:
    """Write all tokens; replaces the first tokens of intervals in `offsets` by byte offsets.

    At most 31 bits wait in `buffer`, and a token has at most 27.
    """
    place, intervals = np.int64(0), offsets.size - 1
    for turn in range(intervals):
        first, last = offsets[turn], offsets[turn + 1]
        if turn:
            out[np.uint64(place)], out[np.uint64(place + 1)] = 0xFF, 0xD0 + ((turn - 1) & 7)
            place += 2
        offsets[turn] = place
        buffer, count = np.int64(0), np.int64(0)
        for i in range(first, last):
            token = np.int64(tokens[np.uint64(i)])
            at, bits = np.uint64(token & 0x3FF), (token >> 10) & 15
            size = lengths[at] + bits
            buffer = (buffer << size) | (codes[at] << bits) | (token >> 14)
            count += size
            if count >= 32:
                count -= 32
                place = put_word(out, place, buffer >> count)
                buffer &= (np.int64(1) << count) - 1
        place = flush(out, place, buffer, count)
    offsets[intervals] = place + 2
    return place


def _sorted(found: Segments) -> tuple[bytes, bytes, list[bytes]]:
    """Split the kept segments: JFIF, those that decoding does not need, Adobe."""
    jfif = [s for s in found.kept if s[1] == 0xE0 and s[4:9] == b"JFIF\0"][:1]
    adobe = [s for s in found.kept if s[1] == _ADOBE and s[4:9] == b"Adobe"]
    others = [s for s in found.kept if s not in jfif and s not in adobe]
    return b"".join(jfif), b"".join(others), adobe


def marker_segment(marker: int, body: bytes) -> bytes:
    """Return a segment: marker, length and body."""
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def _quantizers(found: Segments) -> bytes:
    used = sorted({part.quantizer for part in found.components})
    for number in used:
        if number not in found.quantizers:
            raise UnindexableError("a quantization table is missing")
    parts = [(found.quantizers[n][0] - 1, n, found.quantizers[n][1]) for n in used]
    return marker_segment(
        0xDB, b"".join(bytes([wide << 4 | n]) + table for wide, n, table in parts)
    )


def _frame(found: Segments) -> bytes:
    wide = any(found.quantizers[part.quantizer][0] == 2 for part in found.components)
    body = struct.pack(">BHHB", 8, found.height, found.width, len(found.components))
    for part in found.components:
        body += bytes([part.id, part.h << 4 | part.v, part.quantizer])
    return marker_segment(0xC1 if wide else 0xC0, body)


def _restart(interval: int) -> bytes:
    return marker_segment(0xDD, struct.pack(">H", interval))


def _scan_head(found: Segments) -> bytes:
    parts = [bytes([part.id, 0x11 * min(i, 1)]) for i, part in enumerate(found.components)]
    return marker_segment(0xDA, bytes([len(parts)]) + b"".join(parts) + bytes([0, 63, 0]))
