"""A window of a gridded JPEG as a smaller, valid JPEG: the intervals it touches, put together.

Every interval begins on a byte and forgets what came before, so putting them together is copying;
restart markers are numbered anew and the head says the new size. A decoder gives the window's
pixels exactly as it gives them within the whole picture, provided that the window is wider than
what is needed by a margin: smoothing upsampled chroma looks at the next sample. Compiled.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from stoker.dataset.images.jpeg.grid import (
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
    number_at,
    offset_at,
    raise_fault,
)
from stoker.dataset.limits import CodecError
from stoker.jit import compiled, kernel

_LEAST_WIDTH: Final = 3
"""Chroma samples below which libjpeg-turbo does not smooth across (jdsample.c)."""
_OTHER, _LARGE = 3, 4


class Window(NamedTuple):
    """A part of a picture on its grid: pixels as they are stored, and a JPEG that shows them."""

    top: int
    left: int
    height: int
    width: int
    file: np.ndarray


class Splicer:
    """Cuts windows out of gridded files; belongs to one thread."""

    def __init__(self) -> None:
        """Begin without memory; it grows to the largest file."""
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
    ) -> Window | None:
        """Return the smallest window of whole intervals that shows a box exactly.

        Args:
            data: the gridded file.
            grid: its grid, the side column's bytes.
            size: (height, width) of the picture as stored.
            box: (top, left, height, width) as stored, inside the picture.
            most: pixels of the largest window that is wanted.

        Returns:
            The window, valid until the next call; None if it is larger than wanted.

        Raises:
            CodecError: the grid is damaged, of another version, or of another file or picture.
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
        if status == _LARGE:
            return None
        if status == _OTHER:
            height, width = size
            raise CodecError(f"its grid is not that of a picture of {height}x{width} pixels")
        raise_fault(status)
        top, left, height, width, end = self._window.tolist()
        return Window(top, left, height, width, self._memory[:end])

    def check(self, data: memoryview, grid: memoryview, size: tuple[int, int]) -> None:
        """Check all of a grid, by cutting the whole picture; arguments as for `cut`.

        Raises:
            CodecError: it is not the grid of this file and picture.
        """
        self.cut(data, grid, size, (0, 0, *size), size[0] * size[1])


def compile_splice() -> None:
    """Compile what splicers run, into the cache on disk, by a grid that is refused."""
    arrays = np.frombuffer(bytes(8), np.uint8), np.frombuffer(bytes(8), np.uint8)
    compiled(_cut)(*arrays, np.zeros(7, np.int64), np.empty(8, np.uint8), np.zeros(5, np.int64))


@kernel
def _cut(data: Any, grid: Any, asked: Any, out: Any, window: Any) -> Any:
    fault = fault_of(grid, data.shape[0])
    if fault != 0:
        return fault
    height, width = asked[4], asked[5]
    unit_y, unit_x = np.int64(grid[HEIGHT_AT]), np.int64(grid[WIDTH_AT])
    factor_y, factor_x = unit_y // 8, unit_x // 8
    columns, rows = number_at(grid, COLUMNS_AT, 2), number_at(grid, ROWS_AT, 2)
    unit_x *= number_at(grid, INTERVAL_AT, 2)
    across = (width + 8 * factor_x - 1) // (8 * factor_x) * (8 * factor_x)
    if across != columns * unit_x or (height + unit_y - 1) // unit_y != rows:
        return _OTHER
    upper, lower = _touched(asked[0], asked[2], unit_y, factor_y, rows)
    first, last = _touched(asked[1], asked[3], unit_x, factor_x, columns)
    if width - first * unit_x < _LEAST_WIDTH * factor_x:
        first = max(first - 1, 0)
    window[0], window[1] = upper * unit_y, first * unit_x
    window[2] = min(lower * unit_y, height) - window[0]
    window[3] = min(last * unit_x, width) - window[1]
    if window[2] * window[3] > asked[6]:
        return _LARGE
    window[4] = _splice(data, grid, (upper, lower, first, last), (window[2], window[3]), out)
    return 0 if window[4] else DAMAGED


@kernel
def _touched(begin: Any, length: Any, unit: Any, factor: Any, count: Any) -> tuple[Any, Any]:
    """Return the first unit of one direction that a box needs, and one more than the last.

    Where chroma is subsampled, smoothing looks at the next sample: a margin of `factor` pixels.
    """
    margin = factor if factor > 1 else 0
    end = (begin + length - 1 + margin) // unit + 1
    return max(begin - margin, 0) // unit, min(end, count)


@kernel
def _splice(data: Any, grid: Any, cells: Any, size: Any, out: Any) -> Any:
    """Write the JPEG of intervals `cells`: rows and columns from, to; return its length.

    0 if the grid is not that of this file. Bytes from elsewhere would mostly decode to other pixels
    without a warning, so each place is checked.
    """
    upper, lower, first, last = cells
    columns = number_at(grid, COLUMNS_AT, 2)
    if not _begins(data, grid, 0):
        return 0
    end, head, start = number_at(grid, JFIF_AT, 4), number_at(grid, HEAD_AT, 4), offset_at(grid, 0)
    _copy(data, 0, end, out, 0)
    frame = end + number_at(grid, FRAME_AT, 4) - head
    _copy(data, head, start, out, end)
    end += start - head
    out[frame], out[frame + 1] = size[0] >> 8, size[0] & 0xFF
    out[frame + 2], out[frame + 3] = size[1] >> 8, size[1] & 0xFF
    turn = np.int64(0)
    for y in range(upper, lower):
        begin = offset_at(grid, y * columns + first)
        stop = offset_at(grid, y * columns + last)
        if not _begins(data, grid, y * columns + first):
            return 0
        _copy(data, begin, stop, out, end)
        for x in range(first, last):
            if not _begins(data, grid, y * columns + x + 1):
                return 0
            # The two bytes before the next interval are a marker; the last one's is overwritten.
            place = end + offset_at(grid, y * columns + x + 1) - begin - 2
            out[place], out[place + 1] = 0xFF, 0xD0 + (turn & 7)
            turn += 1
        end += stop - begin
    out[end - 2], out[end - 1] = 0xFF, 0xD9
    return end


@kernel
def _begins(data: Any, grid: Any, cell: Any) -> Any:
    """Whether before interval `cell` stands what belongs there: SOS, a restart marker, or EOI."""
    at = offset_at(grid, cell)
    if cell == 0:
        frame = number_at(grid, FRAME_AT, 4)
        components = np.int64(data[frame + 4])
        sos = at - 8 - 2 * components
        return sos > frame and data[sos] == 0xFF and data[sos + 1] == 0xDA
    intervals = number_at(grid, COLUMNS_AT, 2) * number_at(grid, ROWS_AT, 2)
    marker = 0xD0 + ((cell - 1) & 7) if cell < intervals else 0xD9
    return data[at - 2] == 0xFF and data[at - 1] == marker


@kernel
def _copy(src: Any, begin: Any, stop: Any, dst: Any, at: Any) -> None:
    for i in range(np.uint64(stop - begin)):
        dst[np.uint64(at) + i] = src[np.uint64(begin) + i]
