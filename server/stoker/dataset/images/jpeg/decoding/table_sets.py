"""Lookup tables that are kept from file to file: those of the shared sets, and of one other file.

Each shared set has a place, which is filled when a file first has that set. Behind them is the
place for all other files: it is filled again when the next one has other tables. A set is
recognized by the exact bytes of the file's DHT segment, after `read_head` has checked it; nothing
else says which tables a file has. A gray file has the first half of a set. Compiled.
"""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.decoding.tables import fill_tables
from stoker.dataset.images.jpeg.shared_tables import SET_BYTES, SETS
from stoker.jit import kernel

OTHERS: Final = len(SETS)
"""The place of tables that are not shared."""
PLACES: Final = OTHERS + 1
SHARED: Final = np.frombuffer(b"".join(SETS), np.uint8)
"""All shared sets, one after the other."""
_GRAY_BYTES: Final = SET_BYTES // 2


@kernel
def take_tables(
    data: Any, place: Any, size: Any, count: Any, tables: Any, codes: Any, work: Any
) -> Any:
    """Return the place of the tables of a DHT segment, which is filled if it was not.

    Args:
        data: flat uint8, the file.
        place: of the segment's body.
        size: of the body, in bytes.
        count: tables in it, 2 or 4.
        tables: (PLACES, TABLES * ENTRIES) int64.
        codes: (PLACES, 4 * CODE) int32.
        work: (single, segment, filled, shared): see `fill_tables`; (HUFFMAN_BYTES,) uint8, the
            segment that the last place was filled from, behind two bytes with its length;
            (PLACES,) uint8, whether a place was filled; `SHARED`.
    """
    single, segment, filled, shared = work
    if size == (_GRAY_BYTES if count == 2 else SET_BYTES):
        for number in range(OTHERS):
            if _is_set(data, place, size, shared, number):
                if not filled[number]:
                    filled[number] = 1
                    at = number * SET_BYTES
                    fill_tables(shared, at, 4, tables[number], codes[number], single)
                return number
    if not _is_kept(data, place, size, segment):
        fill_tables(data, place, count, tables[OTHERS], codes[OTHERS], single)
    return OTHERS


@kernel
def _is_set(data: Any, place: Any, size: Any, shared: Any, number: Any) -> Any:
    same, at = True, np.uint64(number * SET_BYTES)
    for i in range(np.uint64(size)):
        same = same and data[np.uint64(place) + i] == shared[at + i]
    return same


@kernel
def _is_kept(data: Any, place: Any, size: Any, segment: Any) -> Any:
    """Return whether the tables are those of the last file that had no shared set; keep them."""
    same = segment[0] == size >> 8 and segment[1] == size & 255
    segment[0], segment[1] = size >> 8, size & 255
    for i in range(np.uint64(size)):
        byte = data[np.uint64(place) + i]
        same = same and segment[np.uint64(2) + i] == byte
        segment[np.uint64(2) + i] = byte
    return same
