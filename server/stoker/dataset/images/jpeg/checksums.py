"""Checksums of the parts of a gridded file: CRC32C, stored in grids of version 2. Compiled.

They show, before anything is decoded, that bytes changed since the file was packed. Both ways to
decode compare the checksums of the parts that they use, so they find the same files damaged. Files
whose grid has version 1 have no checksums, and nothing is compared. Part 0 is what decoding needs
before the intervals, with the grid's own first bytes; part 1 are the segments that decoding does
not need; part 2 is the first interval. Specified in docs/contracts/jpeg-grid.md.
"""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.grid import (
    CHANGED,
    COLUMNS_AT,
    HEAD_AT,
    HEAD_BYTES,
    JFIF_AT,
    ROWS_AT,
    WITH_CHECKSUMS,
    fault_of,
    offset_at,
    raise_fault,
    uint16_at,
    uint32_at,
)
from stoker.jit import compiled, kernel

HEAD_PART, OTHER_SEGMENTS, FIRST_INTERVAL = 0, 1, 2
_POLYNOMIAL: Final = 0x82F63B78


def _table() -> np.ndarray:
    """Return what each byte adds to a register, RFC 3720, appendix B.4."""
    values = np.arange(256, dtype=np.int64)
    for _ in range(8):
        values = (values >> 1) ^ np.where(values & 1, _POLYNOMIAL, 0)
    return values


TABLE: Final = _table()


def checksums_of(data: bytes | memoryview, grid: bytes | memoryview) -> np.ndarray | None:
    """Return the checksums of all parts of a file, uint32; None if its grid is damaged.

    Args:
        data: the gridded file.
        grid: its grid; the checksums in it are not read.
    """
    flat = np.frombuffer(grid, np.uint8)
    found = np.empty(max(len(grid) // 4, FIRST_INTERVAL), np.uint32)
    count = compiled(_fill)(np.frombuffer(data, np.uint8), flat, found)
    return found[:count] if count else None


def check_all_parts(data: memoryview, grid: memoryview) -> None:
    """Compare all checksums of a file that is decoded without its grid.

    A damaged grid is not an error, because the grid is not needed.

    Raises:
        CodecError: the file changed since it was packed.
    """
    if grid[0] != WITH_CHECKSUMS:
        return
    found = checksums_of(data, grid)
    if found is not None and found.astype("<u4").tobytes() != grid[len(grid) - 4 * found.size :]:
        raise_fault(CHANGED)


def compile_checksums() -> None:
    """Compile the code of `checksums_of` into the cache on disk, by a call with an invalid grid."""
    checksums_of(bytes(8), bytes(8))


@kernel
def are_intact(data: Any, grid: Any, cells: Any, everything: bool) -> Any:
    """Return whether what a window needs has its checksums; True without checksums.

    Args:
        data: flat uint8, the file.
        grid: flat uint8, a grid without fault.
        cells: intervals of the window: rows from, to, columns from, to.
        everything: compare the segments that decoding does not need as well.
    """
    if grid[0] != WITH_CHECKSUMS:
        return True
    columns = uint16_at(grid, COLUMNS_AT)
    stored = HEAD_BYTES + 4 * (columns * uint16_at(grid, ROWS_AT) + 1)
    same = uint32_at(grid, stored + 4 * HEAD_PART) == _of_head(data, grid)
    if everything:
        same = same and uint32_at(grid, stored + 4 * OTHER_SEGMENTS) == _of_others(data, grid)
    for y in range(cells[0], cells[1]):
        cell = y * columns + cells[2]
        begin = uint32_at(grid, HEAD_BYTES + 4 * cell)
        for _ in range(cells[3] - cells[2]):
            end = uint32_at(grid, HEAD_BYTES + 4 * (cell + 1))
            expected = uint32_at(grid, stored + 4 * (FIRST_INTERVAL + cell))
            same = same and crc_of(0, data, begin, end) == expected
            begin = end
            cell += 1
    return same


@kernel
def _fill(data: Any, grid: Any, found: Any) -> Any:
    """Fill `found` with the checksums of all parts; return their number, 0 for a damaged grid."""
    if fault_of(grid, data.shape[0]) != 0:
        return 0
    cells = uint16_at(grid, COLUMNS_AT) * uint16_at(grid, ROWS_AT)
    found[HEAD_PART], found[OTHER_SEGMENTS] = _of_head(data, grid), _of_others(data, grid)
    for cell in range(cells):
        begin, end = offset_at(grid, cell), offset_at(grid, cell + 1)
        found[FIRST_INTERVAL + cell] = crc_of(0, data, begin, end)
    return FIRST_INTERVAL + cells


@kernel
def _of_head(data: Any, grid: Any) -> Any:
    found = crc_of(0, grid, 0, HEAD_BYTES)
    found = crc_of(found, data, 0, uint32_at(grid, JFIF_AT))
    return crc_of(found, data, uint32_at(grid, HEAD_AT), offset_at(grid, 0))


@kernel
def _of_others(data: Any, grid: Any) -> Any:
    return crc_of(0, data, uint32_at(grid, JFIF_AT), uint32_at(grid, HEAD_AT))


@kernel(twin="stoker.dataset.images.jpeg.crc_instructions:crc_of")
def crc_of(before: Any, data: Any, begin: Any, end: Any) -> Any:
    """Return the CRC32C of bytes `begin` to `end`, behind others whose CRC32C is `before`."""
    register = np.int64(before) ^ 0xFFFFFFFF
    for i in range(begin, end):
        register = TABLE[(register ^ data[i]) & 0xFF] ^ (register >> 8)
    return register ^ 0xFFFFFFFF
