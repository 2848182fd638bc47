"""The grid of a rewritten JPEG: the place of each restart interval, as bytes of a side column.

Little-endian: the fields of `_HEAD`, then one uint32 per interval and one for the end of the file:
offsets from the start of the file. The two bytes before each offset except the first are a marker.
Version 2 has checksums behind them (`checksums`).
An interval is `interval` MCUs of one MCU row; `interval` divides the columns, so that all intervals
have the same size. Specified with vectors in docs/contracts/jpeg-grid.md.
"""

import struct
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from stoker.dataset.limits import CodecError
from stoker.jit import kernel

WITHOUT_CHECKSUMS, WITH_CHECKSUMS = 1, 2
VERSIONS: Final = (WITHOUT_CHECKSUMS, WITH_CHECKSUMS)
_HEAD: Final = struct.Struct("<BBBBHHHHIII")
HEAD_BYTES: Final = _HEAD.size
WIDTH_AT, HEIGHT_AT, INTERVAL_AT, COLUMNS_AT, ROWS_AT = 1, 2, 4, 6, 8
JFIF_AT, HEAD_AT, FRAME_AT = 12, 16, 20
OLD, DAMAGED = 1, 2
CHANGED: Final = 5
"""Not a fault of the grid: the file does not have its checksums."""


def intervals_of_a_row(data: bytes) -> int:
    """Return the number of intervals in an MCU row, from a side column's new bytes."""
    return int(_HEAD.unpack_from(data)[5])


@dataclass(frozen=True)
class Grid:
    """The grid of one file.

    Attributes:
        mcu_width: width of an MCU in pixels, 8 times the greatest horizontal sampling factor.
        mcu_height: height of an MCU in pixels, the same with vertical sampling.
        interval: number of MCUs in an interval.
        columns: number of intervals in an MCU row.
        rows: number of MCU rows.
        jfif_end: the bytes from 2 to here are the JFIF segment, if any.
        head: offset of the segments that a decoder needs.
        frame: offset of the height in the frame segment.
        offsets: (columns * rows + 1,) uint32: start of each interval, then the end of the file.
        checksums: (columns * rows + 2,) uint32, of version 2; None: version 1.
    """

    mcu_width: int
    mcu_height: int
    interval: int
    columns: int
    rows: int
    jfif_end: int
    head: int
    frame: int
    offsets: np.ndarray
    checksums: np.ndarray | None = None

    def to_bytes(self) -> bytes:
        """Return the side column's bytes."""
        version = WITHOUT_CHECKSUMS if self.checksums is None else WITH_CHECKSUMS
        head = _HEAD.pack(
            version, self.mcu_width, self.mcu_height, 0,
            self.interval, self.columns, self.rows, 0,
            self.jfif_end, self.head, self.frame,
        )  # fmt: skip
        numbers = [self.offsets] if self.checksums is None else [self.offsets, self.checksums]
        return head + b"".join(part.astype("<u4").tobytes() for part in numbers)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Self:
        """Return the grid of a side column's bytes without fault; its checksums are left out."""
        _, width, height, _, interval, columns, rows, _, jfif, head, frame = _HEAD.unpack_from(data)
        offsets = np.frombuffer(data, "<u4", columns * rows + 1, HEAD_BYTES)
        return cls(width, height, interval, columns, rows, jfif, head, frame, offsets)


def raise_fault(fault: int) -> None:
    """Raise the fault that `fault_of` returned, or CHANGED.

    Raises:
        CodecError: unless the fault is 0.
    """
    if fault == OLD:
        raise CodecError("its grid is damaged or of another version")
    if fault == DAMAGED:
        raise CodecError("its grid is damaged")
    if fault == CHANGED:
        raise CodecError("it is damaged: it does not have the checksums that its grid stores")


@kernel
def fault_of(grid: Any, size_bytes: int) -> int:
    """Return OLD, DAMAGED, or 0 for the grid of a file of that size; `grid` is flat uint8."""
    length = grid.shape[0]
    if length < HEAD_BYTES or length % 4 != 0 or grid[0] not in VERSIONS:
        return OLD
    cells = uint16_at(grid, COLUMNS_AT) * uint16_at(grid, ROWS_AT)
    numbers = cells + 1 if grid[0] == WITHOUT_CHECKSUMS else 2 * cells + 3
    if cells < 1 or uint16_at(grid, INTERVAL_AT) < 1 or length != HEAD_BYTES + 4 * numbers:
        return DAMAGED
    for side in (np.int64(grid[WIDTH_AT]), np.int64(grid[HEIGHT_AT])):
        if side % 8 != 0 or side < 8 or side > 32:
            return DAMAGED
    jfif_end, head = uint32_at(grid, JFIF_AT), uint32_at(grid, HEAD_AT)
    frame, begin = uint32_at(grid, FRAME_AT), offset_at(grid, 0)
    if jfif_end < 2 or head < jfif_end or frame <= head or begin < frame + 4:
        return DAMAGED
    for cell in range(cells):
        end = offset_at(grid, cell + 1)
        if end < begin + 2:
            return DAMAGED
        begin = end
    return 0 if begin == size_bytes else DAMAGED


@kernel
def offset_at(grid: Any, cell: int) -> Any:
    """Return the offset at which an interval begins in its file."""
    return uint32_at(grid, HEAD_BYTES + 4 * cell)


@kernel
def uint16_at(grid: Any, at: int) -> Any:
    """Return 16 bits of the side column's bytes, which need no alignment."""
    i = np.uint64(at)
    return np.int64(grid[i]) | np.int64(grid[i + np.uint64(1)]) << 8


@kernel
def uint32_at(grid: Any, at: int) -> Any:
    """Return 32 bits of the side column's bytes; LLVM makes one load of them."""
    i = np.uint64(at)
    low = np.int64(grid[i]) | np.int64(grid[i + np.uint64(1)]) << 8
    return low | np.int64(grid[i + np.uint64(2)]) << 16 | np.int64(grid[i + np.uint64(3)]) << 24
