"""A window of a gridded JPEG as a smaller, valid JPEG: the intervals it touches, put together.

Every interval begins on a byte and forgets what came before, so putting them together is copying;
restart markers are numbered anew and the head says the new size. A decoder gives the window's
pixels exactly as it gives them within the whole picture, provided that the window is wider than
what is needed by a margin: smoothing upsampled chroma looks at the next sample. Compiled.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stoker.dataset.jpeg.grid import Grid
from stoker.rng.jit import compiled, kernel

_LEAST_WIDTH: Final = 3
"""Chroma samples below which libjpeg-turbo does not smooth across (jdsample.c)."""


@dataclass(frozen=True)
class Window:
    """A part of a picture on its grid: pixels, and the intervals that hold it."""

    top: int
    left: int
    height: int
    width: int
    rows: range
    columns: range


def window_of(
    grid: Grid, size: tuple[int, int], top: int, left: int, height: int, width: int
) -> Window:
    """Return the smallest window of whole intervals that shows a box exactly.

    Args:
        grid: the picture's.
        size: (height, width) of the picture as stored.
        top: of the box, in pixels of the picture as stored; so are left, height and width.
        left: see top.
        height: see top.
        width: see top.
    """
    unit_x, unit_y = grid.interval * grid.mcu_width, grid.mcu_height
    factor_x, factor_y = grid.mcu_width // 8, grid.mcu_height // 8
    margin_x, margin_y = factor_x * (factor_x > 1), factor_y * (factor_y > 1)
    first = max(left - margin_x, 0) // unit_x
    last = min((left + width - 1 + margin_x) // unit_x, grid.columns - 1)
    if size[1] - first * unit_x < _LEAST_WIDTH * factor_x:
        first = max(first - 1, 0)
    upper = max(top - margin_y, 0) // unit_y
    lower = min((top + height - 1 + margin_y) // unit_y, grid.rows - 1)
    y, x = upper * unit_y, first * unit_x
    return Window(
        y,
        x,
        min((lower + 1) * unit_y, size[0]) - y,
        min((last + 1) * unit_x, size[1]) - x,
        range(upper, lower + 1),
        range(first, last + 1),
    )


def splice(data: np.ndarray, grid: Grid, window: Window, out: np.ndarray) -> np.ndarray:
    """Write the window's JPEG into `out`, flat uint8 of at least the file's size; return it.

    Args:
        data: the gridded file, flat uint8.
        grid: its grid.
        window: what `window_of` gave.
        out: memory.
    """
    box = np.array(
        [
            window.rows.start, window.rows.stop, window.columns.start, window.columns.stop,
            grid.columns, window.height, window.width, grid.jfif_end, grid.head, grid.frame,
        ],
        np.int64,
    )  # fmt: skip
    return out[: compiled(_splice)(data, grid.offsets, box, out)]


@kernel
def _splice(data: Any, offsets: Any, box: Any, out: Any) -> Any:
    upper, lower, first, last, columns = box[0], box[1], box[2], box[3], box[4]
    jfif_end, head, start = box[7], box[8], np.int64(offsets[0])
    end = jfif_end
    _copy(data, 0, jfif_end, out, 0)
    frame = end + box[9] - head
    _copy(data, head, start, out, end)
    end += start - head
    out[frame], out[frame + 1] = box[5] >> 8, box[5] & 0xFF
    out[frame + 2], out[frame + 3] = box[6] >> 8, box[6] & 0xFF
    turn = np.int64(0)
    for y in range(upper, lower):
        begin = np.int64(offsets[y * columns + first])
        stop = np.int64(offsets[y * columns + last])
        _copy(data, begin, stop, out, end)
        for x in range(first, last):
            # The two bytes before the next interval are a marker; the last one's is overwritten.
            place = end + np.int64(offsets[y * columns + x + 1]) - begin - 2
            out[place], out[place + 1] = 0xFF, 0xD0 + (turn & 7)
            turn += 1
        end += stop - begin
    out[end - 2], out[end - 1] = 0xFF, 0xD9
    return end


@kernel
def _copy(src: Any, begin: Any, stop: Any, dst: Any, at: Any) -> None:
    for i in range(np.uint64(stop - begin)):
        dst[np.uint64(at) + i] = src[np.uint64(begin) + i]
