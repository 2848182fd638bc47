"""Decoding of a window of a file of bit planes, band by band. Compiled, as one kernel.

It replaces `bands.decode`, which has no code of bit planes, so only processes that read such files
compile it. `bands.prepare` reads heads, and `bands.finish_band` makes pixels.
"""

from typing import Any

import numpy as np

from stoker.dataset.images.jpeg.decoding.bands import cells_of, finish_band, intervals_of
from stoker.dataset.images.jpeg.decoding.sizes import BAND, LANES
from stoker.dataset.images.jpeg.decoding.unstuffing import STARTS, STOPS
from stoker.dataset.images.jpeg.decoding.window import BLOCKS, LOWER, SLOT, UPPER
from stoker.dataset.images.jpeg.grid import INTERVAL_AT, offset_at, uint16_at
from stoker.dataset.images.jpeg.planes.plane_intervals import decode_plane_intervals
from stoker.jit import kernel


@kernel
def decode_planes(
    data: Any, grid: Any, numbers: Any, parts: Any, file: Any, memory: Any, out: Any
) -> Any:
    """Decode the box that was prepared, of a file of bit planes; otherwise as `bands.decode`."""
    where, factors, _, _, parameters = file
    _, plain, places, coefficients, planes, jobs = memory
    coding = (where, (numbers[SLOT], numbers[BLOCKS]), parameters)
    sources = (coefficients, places, where, uint16_at(grid, INTERVAL_AT))
    targets = (planes, jobs, np.empty(64 * LANES, np.int16), out)
    for upper in range(numbers[UPPER], numbers[LOWER], BAND):
        rows = (upper, min(upper + BAND, numbers[LOWER]))
        _copy_band(data, grid, rows, numbers, plain, places)
        found = intervals_of(rows, numbers)
        if not decode_plane_intervals(plain, places, found, coefficients, *coding):
            return False
        if not finish_band(rows, numbers, parts, factors, sources, targets):
            return False
    return True


@kernel
def _copy_band(data: Any, grid: Any, rows: Any, numbers: Any, plain: Any, places: Any) -> None:
    """Copy the intervals of a band as they are."""
    number, to = np.int64(0), np.int64(0)
    for y in range(rows[0], rows[1]):
        cells = cells_of(grid, y, numbers)
        begin, end = offset_at(grid, cells[0]), offset_at(grid, cells[1])
        for i in range(np.uint64(end - begin)):
            plain[np.uint64(to) + i] = data[np.uint64(begin) + i]
        for cell in range(cells[0], cells[1]):
            places[STARTS, number] = 8 * (to + offset_at(grid, cell) - begin)
            places[STOPS, number] = 8 * (to + offset_at(grid, cell + 1) - begin)
            number += 1
        to += end - begin
