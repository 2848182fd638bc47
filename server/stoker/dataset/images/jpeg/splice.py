"""A window of a gridded JPEG as a smaller, valid JPEG: the intervals that it touches, joined.

Every interval starts at a byte and does not depend on earlier data, so joining is copying; restart
markers are renumbered and the head gets the new size. A decoder gives exactly the same pixels for
the window as within the whole image, if the window has a margin: smoothing of upsampled chroma
reads the next sample. Compiled.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from stoker.dataset.images.jpeg.checksums import are_intact, compile_checksums
from stoker.dataset.images.jpeg.grid import (
    CHANGED,
    COLUMNS_AT,
    DAMAGED,
    FRAME_AT,
    HEAD_AT,
    HEIGHT_AT,
    INTERVAL_AT,
    JFIF_AT,
    ROWS_AT,
    WIDTH_AT,
    fault_of,
    offset_at,
    raise_fault,
    uint16_at,
    uint32_at,
)
from stoker.dataset.limits import CodecError
from stoker.jit import compiled, kernel

LEAST_WIDTH: Final = 3
"""With fewer chroma samples across, libjpeg-turbo does not smooth (jdsample.c)."""
OTHER, LARGE = 3, 4
"""Results of `find_cells`, besides the faults of a grid."""


class CutJpeg(NamedTuple):
    """A part of an image on its grid: its place in stored pixels, and a JPEG of it."""

    top: int
    left: int
    height: int
    width: int
    file: np.ndarray


class Splicer:
    """Cuts windows out of gridded files; belongs to one thread."""

    def __init__(self) -> None:
        """Start without memory; it grows to the largest file."""
        self._memory = np.empty(0, np.uint8)
        self._asked = np.zeros(7, np.int64)
        self._window = np.zeros(5, np.int64)

    def cut(
        self,
        data: memoryview,
        grid: memoryview,
        size: tuple[int, int],
        box: tuple[int, int, int, int],
        most: int,
    ) -> CutJpeg | None:
        """Return the smallest window of whole intervals that shows a box exactly.

        Args:
            data: the gridded file.
            grid: its grid, the side column's bytes.
            size: (height, width) of the image as stored.
            box: (top, left, height, width) as stored, inside the image.
            most: pixels of the largest acceptable window.

        Returns:
            The window, valid until the next call; None if it has more than `most` pixels.

        Raises:
            CodecError: the grid is damaged, has another version, or belongs to another file; or the
                window's bytes do not have their checksums.
        """
        if self._memory.size < len(data):
            self._memory = np.empty(len(data), np.uint8)
        self._asked[:] = (*box, *size, most)
        status = compiled(_cut)(
            np.frombuffer(data, np.uint8),
            np.frombuffer(grid, np.uint8),
            self._asked,
            self._memory,
            self._window,
        )
        if status == LARGE:
            return None
        raise_status(status, size)
        top, left, height, width, end = self._window.tolist()
        return CutJpeg(top, left, height, width, self._memory[:end])

    def check(self, data: memoryview, grid: memoryview, size: tuple[int, int]) -> None:
        """Check a whole grid by cutting the whole image; arguments as for `cut`.

        Raises:
            CodecError: it is not the grid of this file and picture, or a checksum differs.
        """
        self.cut(data, grid, size, (0, 0, *size), size[0] * size[1])


def raise_status(status: int, size: tuple[int, int]) -> None:
    """Raise the fault that `find_cells` returned for an image of that height and width, or CHANGED.

    Raises:
        CodecError: unless the status is 0 or LARGE.
    """
    if status == OTHER:
        height, width = size
        raise CodecError(f"expected the grid of an image of {height}x{width} pixels, got another")
    if status != LARGE:
        raise_fault(status)


def compile_splice() -> None:
    """Compile the splicer's code into the cache on disk, by a call with an invalid grid."""
    compile_checksums()
    arrays = np.frombuffer(bytes(8), np.uint8), np.frombuffer(bytes(8), np.uint8)
    compiled(_cut)(*arrays, np.zeros(7, np.int64), np.empty(8, np.uint8), np.zeros(5, np.int64))


@kernel
def _cut(data: Any, grid: Any, asked: Any, out: Any, window: Any) -> Any:
    cells = np.zeros(4, np.int64)
    status = find_cells(grid, data.shape[0], asked, cells, window)
    if status != 0:
        return status
    if not are_intact(data, grid, cells, False):
        return CHANGED
    window[4] = _splice(data, grid, cells, (window[2], window[3]), out)
    return 0 if window[4] else DAMAGED


@kernel
def find_cells(grid: Any, size_bytes: int, asked: Any, cells: Any, window: Any) -> Any:
    """Find the intervals that a box needs; return 0, a fault of the grid, OTHER or LARGE.

    Args:
        grid: flat uint8.
        size_bytes: of the file.
        asked: int64: the box (top, left, height, width), the image's height and width as stored,
            and pixels of the largest acceptable window.
        cells: (4,) int64, receives rows of intervals from and to, columns from and to; also if the
            window is LARGE.
        window: int64, receives top, left, height and width of the window.
    """
    fault = fault_of(grid, size_bytes)
    if fault != 0:
        return fault
    height, width = asked[4], asked[5]
    unit_y, unit_x = np.int64(grid[HEIGHT_AT]), np.int64(grid[WIDTH_AT])
    factor_y, factor_x = unit_y // 8, unit_x // 8
    columns, rows = uint16_at(grid, COLUMNS_AT), uint16_at(grid, ROWS_AT)
    unit_x *= uint16_at(grid, INTERVAL_AT)
    across = (width + 8 * factor_x - 1) // (8 * factor_x) * (8 * factor_x)
    if across != columns * unit_x or (height + unit_y - 1) // unit_y != rows:
        return OTHER
    upper, lower = _touched(asked[0], asked[2], unit_y, factor_y, rows)
    first, last = _touched(asked[1], asked[3], unit_x, factor_x, columns)
    if width - first * unit_x < LEAST_WIDTH * factor_x:
        first = max(first - 1, 0)
    cells[0], cells[1], cells[2], cells[3] = upper, lower, first, last
    window[0], window[1] = upper * unit_y, first * unit_x
    window[2] = min(lower * unit_y, height) - window[0]
    window[3] = min(last * unit_x, width) - window[1]
    return LARGE if window[2] * window[3] > asked[6] else 0


@kernel
def _touched(begin: Any, length: Any, unit: Any, factor: Any, count: Any) -> tuple[Any, Any]:
    """Return the first unit in one direction that a box needs, and one more than the last.

    If chroma is subsampled, smoothing reads the next sample: a margin of `factor` pixels.
    """
    margin = factor if factor > 1 else 0
    end = (begin + length - 1 + margin) // unit + 1
    return max(begin - margin, 0) // unit, min(end, count)


@kernel
def _splice(data: Any, grid: Any, cells: Any, size: Any, out: Any) -> Any:
    """Write the JPEG of intervals `cells` (rows from, to, columns from, to); return its length.

    Returns 0 if the grid does not belong to this file. Bytes from elsewhere would mostly decode to
    other pixels without a warning, so each place is checked.
    """
    upper, lower, first, last = cells
    columns = uint16_at(grid, COLUMNS_AT)
    if not begins(data, grid, 0):
        return 0
    end, head, start = uint32_at(grid, JFIF_AT), uint32_at(grid, HEAD_AT), offset_at(grid, 0)
    _copy(data, 0, end, out, 0)
    frame = end + uint32_at(grid, FRAME_AT) - head
    _copy(data, head, start, out, end)
    end += start - head
    out[frame], out[frame + 1] = size[0] >> 8, size[0] & 0xFF
    out[frame + 2], out[frame + 3] = size[1] >> 8, size[1] & 0xFF
    turn = np.int64(0)
    for y in range(upper, lower):
        begin = offset_at(grid, y * columns + first)
        stop = offset_at(grid, y * columns + last)
        if not begins(data, grid, y * columns + first):
            return 0
        _copy(data, begin, stop, out, end)
        for x in range(first, last):
            if not begins(data, grid, y * columns + x + 1):
                return 0
            # The two bytes before the next interval are a marker; the last one is overwritten.
            place = end + offset_at(grid, y * columns + x + 1) - begin - 2
            out[place], out[place + 1] = 0xFF, 0xD0 + (turn & 7)
            turn += 1
        end += stop - begin
    out[end - 2], out[end - 1] = 0xFF, 0xD9
    return end


@kernel
def begins(data: Any, grid: Any, cell: Any) -> Any:
    """Return whether the right marker precedes interval `cell`: SOS, a restart marker, or EOI."""
    at = offset_at(grid, cell)
    if cell == 0:
        frame = uint32_at(grid, FRAME_AT)
        components = np.int64(data[frame + 4])
        sos = at - 8 - 2 * components
        return sos > frame and data[sos] == 0xFF and data[sos + 1] == 0xDA
    intervals = uint16_at(grid, COLUMNS_AT) * uint16_at(grid, ROWS_AT)
    marker = 0xD0 + ((cell - 1) & 7) if cell < intervals else 0xD9
    return data[at - 2] == 0xFF and data[at - 1] == marker


@kernel
def _copy(src: Any, begin: Any, stop: Any, dst: Any, at: Any) -> None:
    for i in range(np.uint64(stop - begin)):
        dst[np.uint64(at) + i] = src[np.uint64(begin) + i]
