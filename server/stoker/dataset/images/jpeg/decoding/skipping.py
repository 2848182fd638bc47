"""Tables for blocks of which only DC is needed: a lookup skips as many symbols as its bits have.

Their entries have the form of other tables (`tables`): a step over all these symbols, and whether
the block ends. A lookup stores a zero, at a place that is never read. The tables serve where no
lookup can leave its block; nearer to its end, the other tables do. Compiled.
"""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.decoding.entropy import address
from stoker.dataset.images.jpeg.decoding.sizes import ENTRIES, LOOKUP_BITS
from stoker.dataset.images.jpeg.decoding.tables import LATE, SKIP, SLOW
from stoker.dataset.images.jpeg.decoding.window import SIDE
from stoker.jit import kernel

SPAN: Final = 16
"""Coefficients that a lookup skips at most."""
_LENGTH: Final = 127
"""The bits of an entry that have its length."""


@kernel
def fill_skips(tables: Any, count: Any) -> None:
    """Fill the tables that skip symbols, unless they are filled.

    Args:
        tables: flat int64, filled by `fill_tables`.
        count: components.
    """
    for k in range(min(count, 2)):
        to, single = (SKIP + k) * ENTRIES, (LATE + k) * ENTRIES
        if tables[to] == 0:
            for window in range(ENTRIES):
                tables[np.uint64(to + window)] = _skipped(tables, single, window)


@kernel
def _skipped(tables: Any, single: Any, window: Any) -> Any:
    """Return the entry of the symbols that a window begins with."""
    entry = tables[np.uint64(single + window)]
    if entry & SLOW:
        return entry
    length, step, end = np.int64(0), np.int64(0), np.int64(0)
    while not entry & SLOW and length + (entry & _LENGTH) <= LOOKUP_BITS:
        end = (entry >> 56) & 255
        by = (entry >> 8) & 255
        if end == 0 and step + by > 2 * SPAN:
            break
        length += entry & _LENGTH
        if end != 0:
            step = max(step, by)  # DC is not overwritten
            break
        step += by
        window = (window << (entry & _LENGTH)) & (ENTRIES - 1)
        entry = tables[np.uint64(single + window)]
    return length | step << 8 | end << 56


@kernel
def skip_following(parts: Any, where: Any, blocks: Any, tables: Any, following: Any) -> None:
    """Let tables that skip follow the coefficients of blocks of which only DC is needed.

    Args:
        parts: from `lay_out`.
        where: from `fill_where`.
        blocks: of an interval.
        tables: flat int64.
        following: from `fill_following`.
    """
    base, size = address(tables), 8 * ENTRIES
    for k in range(blocks):
        i = where[k, 0]
        if parts[i, SIDE] == 1:
            table = base + (SKIP + min(i, 1)) * size
            for j in range(64 * k, 64 * k + 63 - SPAN):
                following[np.uint64(j)] = table
