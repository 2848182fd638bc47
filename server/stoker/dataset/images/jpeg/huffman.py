"""Huffman tables of JPEG: looking codes up, and computing optimal codes for counted symbols.

Codes are canonical (ITU-T T.81, annex C). Optimal codes of at most 16 bits follow T.81, annex K.2,
which keeps the code of all ones free.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.segments import HuffmanTable
from stoker.dataset.limits import CodecError
from stoker.jit import compiled, kernel

SYMBOLS: Final = 257
"""256 symbols, and one for the code of all ones."""
KINDS: Final = (0x00, 0x10, 0x01, 0x11)
"""Class and number of the tables of a gridded file: DC and AC of luma, DC and AC of chroma."""
SHORT: Final = 10
"""Bits of the codes that `short_codes` holds."""


def lookup(table: HuffmanTable, out: np.ndarray) -> None:
    """Fill a table of 2^16 entries: code, right-padded -> length * 256 + symbol, or 0.

    Raises:
        CodecError: there are more codes than their lengths allow.
    """
    lengths = np.repeat(np.arange(1, 17), np.frombuffer(table.counts, np.uint8))
    spans = 1 << (16 - lengths)
    end = int(spans.sum())
    if end > 1 << 16:
        raise CodecError("it is damaged: a Huffman table has too many codes")
    entries = lengths << 8 | np.frombuffer(table.symbols, np.uint8)
    out[:end] = np.repeat(entries.astype(np.uint16), spans)
    out[end:] = 0


def short_codes(tables: np.ndarray) -> np.ndarray:
    """Return the entries of codes of at most 10 bits, for the first 10 bits of each table.

    Most symbols have a short code, and these tables of 2 KiB stay in the nearest cache.

    Args:
        tables: (..., 2^16), as `lookup` fills them.

    Returns:
        (..., 2^10); 0 for longer codes and where there is no code.
    """
    entries: np.ndarray = tables[..., :: 1 << (16 - SHORT)].copy()
    entries[entries >> 8 > SHORT] = 0
    return entries


def body_of(tables: Sequence[HuffmanTable]) -> bytes:
    """Return the body of a DHT segment with tables in the order DC, AC, DC, AC."""
    return b"".join(
        bytes([kind]) + table.counts + table.symbols
        for kind, table in zip(KINDS, tables, strict=False)
    )


def tables_of(body: bytes) -> list[HuffmanTable]:
    """Return the tables of what `body_of` made."""
    found, place = [], 0
    while place < len(body):
        counts = body[place + 1 : place + 17]
        end = place + 17 + sum(counts)
        found.append(HuffmanTable(counts, body[place + 17 : end]))
        place = end
    return found


def codes_of(table: HuffmanTable) -> tuple[np.ndarray, np.ndarray]:
    """Return (codes, lengths) by symbol, each (256,) int64; length 0 if there is no code."""
    codes, lengths = np.zeros(256, np.int64), np.zeros(256, np.int64)
    code, place = 0, 0
    for length in range(1, 17):
        for _ in range(table.counts[length - 1]):
            codes[table.symbols[place]], lengths[table.symbols[place]] = code, length
            code += 1
            place += 1
        code <<= 1
    return codes, lengths


def best_table(frequencies: np.ndarray) -> HuffmanTable:
    """Return the table with the fewest bits for these symbol frequencies, (256,) int64."""
    counted = np.append(frequencies, 1).astype(np.int64)
    used = counted.nonzero()[0]
    sizes = np.zeros(used.size, np.int64)
    compiled(_code_sizes)(counted[used], sizes)
    by_length = np.bincount(sizes, minlength=SYMBOLS)
    _limit(by_length)
    by_length[by_length.nonzero()[0].max()] -= 1  # the code of all ones
    order = used[np.argsort(sizes, kind="stable")]
    symbols = order[order < 256].astype(np.uint8)
    return HuffmanTable(by_length[1:17].astype(np.uint8).tobytes(), symbols.tobytes())


@kernel
def _code_sizes(frequencies: Any, sizes: Any) -> None:
    """Find code sizes by merging the two rarest (T.81, figure K.1); overwrites `frequencies`."""
    n = frequencies.size
    others = np.full(n, -1, np.int64)
    while True:
        a, b = -1, -1
        for i in range(n - 1, -1, -1):
            if frequencies[i] > 0:
                if a < 0 or frequencies[i] < frequencies[a]:
                    a, b = i, a
                elif b < 0 or frequencies[i] < frequencies[b]:
                    b = i
        if b < 0:
            return
        frequencies[a] += frequencies[b]
        frequencies[b] = 0
        sizes[a] += 1
        while others[a] >= 0:
            a = others[a]
            sizes[a] += 1
        others[a] = b
        sizes[b] += 1
        while others[b] >= 0:
            b = others[b]
            sizes[b] += 1


def _limit(by_length: np.ndarray) -> None:
    """Shorten codes to 16 bits (T.81, figure K.3)."""
    for length in range(int(by_length.nonzero()[0].max()), 16, -1):
        while by_length[length] > 0:
            shorter = length - 2
            while by_length[shorter] == 0:
                shorter -= 1
            by_length[length] -= 2
            by_length[length - 1] += 1
            by_length[shorter + 1] += 2
            by_length[shorter] -= 1
