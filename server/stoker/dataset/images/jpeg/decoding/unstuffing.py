"""The data of intervals without stuffed bytes, copied one behind the other. Compiled.

An interval ends at the first marker. That must be the restart marker, or EOI, at the place that the
grid names: any other one in between is damage.
"""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.grid import offset_at
from stoker.jit import kernel

RUN: Final = 32
"""Bytes that are copied at once; as many may be written behind the data."""
STARTS, ENDS, STOPS = range(3)
"""Rows of `places`: first bit of an interval, where decoding ended, the first bit behind it."""


@kernel
def unstuff(data: Any, grid: Any, cells: Any, plain: Any, to: Any, places: Any, number: Any) -> Any:
    """Copy some intervals of a row; return the end of the copy, or -1 if they are damaged.

    Args:
        data: flat uint8, the file.
        grid: flat uint8, its grid; the markers before and after the intervals were checked.
        cells: (first interval, one more than the last).
        plain: flat uint8.
        to: where the copy begins.
        places: (3, intervals or more) int64, receives STARTS and STOPS.
        number: of the first interval in `places`.
    """
    place = offset_at(grid, cells[0])
    for cell in range(cells[0] + 1, cells[1] + 1):
        end = offset_at(grid, cell) - 2
        places[STARTS, number] = 8 * to
        while True:
            if place + RUN <= data.shape[0]:
                found = copy_32(data, place, plain, to)
            else:
                found = _copy_rest(data, place, plain, to)
            at = place + found
            if found == RUN:
                place += RUN
                to += RUN
            elif at < end and data[at + 1] == 0:
                place = at + 2
                to += found + 1
            elif at == end:
                to += found
                break
            else:
                return -1
        places[STOPS, number] = 8 * to
        place = end + 2
        number += 1
    return to


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.memory:copy_32")
def copy_32(data: Any, at: Any, plain: Any, to: Any) -> int:
    """Copy 32 bytes; return the place of the first 0xFF among them, or 32."""
    some = bytes(data[at : at + RUN])
    plain[to : to + RUN] = data[at : at + RUN]
    found = some.find(0xFF)
    return RUN if found < 0 else found


@kernel
def _copy_rest(data: Any, at: Any, plain: Any, to: Any) -> Any:
    """Do the same near the end of the file; nothing beyond it is read."""
    for i in range(min(RUN, data.shape[0] - at)):
        plain[to + i] = data[at + i]
        if data[at + i] == 0xFF:
            return np.int64(i)
    return np.int64(RUN)
