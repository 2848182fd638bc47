"""The check of a stored row: a fast hash of its bytes, compared whenever the row is read.

XXH64 (Yann Collet, xxhash.com) over the lengths of the row's values in columns of variable length
(unsigned 64-bit, little-endian), then the bytes of all its values, in the order of the file's
columns, without the row columns (`stoker.*`). So it covers what a field's value is stored as, and
the side columns: sizes, orientations, grids. It finds accidents, not attacks; the row digest and
the fingerprint stay BLAKE2b. Specified in docs/contracts/dataset.md.
"""

import functools
import struct
from collections.abc import Sequence

from xxhash import xxh64

from stoker.dataset.format.fields import ROW_COLUMNS, Schema


def checked_columns(schema: Schema) -> tuple[str, ...]:
    """Return the columns that the check covers, in file order."""
    return tuple(name for name, _ in schema.columns() if name not in ROW_COLUMNS)


def row_check(lengths: Sequence[int], values: Sequence[bytes | memoryview]) -> bytes:
    """Return the 8-byte check of a row.

    Args:
        lengths: lengths in bytes of the values in columns of variable length, in order.
        values: the bytes of every checked column, in order.
    """
    state = xxh64(_words(len(lengths)).pack(*lengths))
    update = state.update
    for value in values:
        update(value)
    return state.digest()


@functools.cache
def _words(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}Q")
