"""The choice of Huffman tables when a JPEG is rewritten: a shared set, or its own.

With own tables a file is smallest, but decoders must build lookup tables for each such file. So the
shared set with the fewest bits is taken, unless it has over `MOST_GROWTH_PERCENT` more than the
file's own tables. The choice depends on the counted symbols alone. docs/contracts/jpeg-grid.md has
the rule.
"""

from typing import Final

import numpy as np

from stoker.dataset.images.jpeg.huffman import best_table, body_of, codes_of, tables_of
from stoker.dataset.images.jpeg.segments import HuffmanTable
from stoker.dataset.images.jpeg.shared_tables import SETS

MOST_GROWTH_PERCENT = 4
_VALUE_BITS: Final = np.arange(256) & 15
"""Bits behind the code of each symbol."""
_SHARED: Final = tuple(tables_of(body) for body in SETS)
_LENGTHS: Final = np.array([[codes_of(table)[1] for table in tables] for tables in _SHARED])


def chosen_tables(counts: np.ndarray) -> list[HuffmanTable]:
    """Return the tables for a file.

    Args:
        counts: how often each symbol occurs, (2 or 4, 256) int64: DC, AC of luma, then of chroma.
    """
    used = len(counts)
    own = [best_table(counted) for counted in counts]
    least = _bits(own, np.array([codes_of(table)[1] for table in own]), counts)
    sizes = [
        _bits(tables[:used], lengths[:used], counts)
        for tables, lengths in zip(_SHARED, _LENGTHS, strict=True)
    ]
    number = int(np.argmin(sizes))
    if 100 * sizes[number] > (100 + MOST_GROWTH_PERCENT) * least:
        return own
    return list(_SHARED[number][:used])


def _bits(tables: list[HuffmanTable], lengths: np.ndarray, counts: np.ndarray) -> int:
    """Return the bits of tables and scan, without markers and stuffed bytes."""
    return 8 * len(body_of(tables)) + int(((lengths + _VALUE_BITS) * counts).sum())
