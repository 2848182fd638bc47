"""Files of bit planes from gridded JPEGs, and back: the coefficients stay the same.

The way back gives the gridded file byte for byte: its Huffman tables follow from the coefficients.
"""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.checksums import check_all_parts
from stoker.dataset.images.jpeg.coefficients import (
    Coefficients,
    block_number,
    planes_of,
    read_coefficients,
)
from stoker.dataset.images.jpeg.decoding.sizes import DC_MARK, MOST_BLOCKS
from stoker.dataset.images.jpeg.grid import Grid, fault_of, raise_fault
from stoker.dataset.images.jpeg.grid_rewrite import (
    GriddedHead,
    Rewritten,
    huffman_coded,
    marker_segment,
    shape_of,
)
from stoker.dataset.images.jpeg.planes.plane_bits import READ_AHEAD
from stoker.dataset.images.jpeg.planes.plane_form import (
    PARAMETERS,
    SIGNATURE,
    is_planes,
    new_parameters,
    parameters_of,
    parameters_size,
    read_parameters,
)
from stoker.dataset.images.jpeg.planes.plane_intervals import decode_plane_intervals
from stoker.dataset.images.jpeg.planes.plane_writer import write_planes
from stoker.dataset.images.jpeg.segments import DHT, EOI, SOI, read_segments
from stoker.dataset.limits import CodecError
from stoker.jit import compiled, kernel

_BLOCK: Final = 64


def to_planes(made: Rewritten) -> Rewritten | None:
    """Return a gridded JPEG as a file of bit planes; None if its intervals are too long.

    Raises:
        CodecError: it is damaged.
    """
    coefficients = read_coefficients(made.data, read_segments(made.data))
    shape, interval = shape_of(coefficients), made.grid.interval
    if interval * int((shape[:, 0] * shape[:, 1]).sum()) > MOST_BLOCKS:
        return None
    head, _ = _split(made.data, made.grid, DHT)
    intervals, offsets, numbers, shifts = write_planes(coefficients, shape, interval)
    body = parameters_of(numbers, shifts, len(shape))
    found = head.joined(marker_segment(PARAMETERS, body), intervals, offsets)
    again = to_jpeg(found.data, found.grid.to_bytes())
    if again.data != made.data:
        raise CodecError("its coefficients differ after coding")
    return found


def to_jpeg(data: bytes | memoryview, grid: bytes | memoryview) -> Rewritten:
    """Return the gridded JPEG of a file of bit planes.

    Raises:
        CodecError: it is damaged.
    """
    view = bytes(data)
    raise_fault(fault_of(np.frombuffer(grid, np.uint8), len(view)))
    if not is_planes(view):
        raise CodecError("expected a file of bit planes")
    check_all_parts(memoryview(view), memoryview(grid))
    head, body = _split(view, Grid.from_bytes(grid), PARAMETERS)
    coefficients = _coefficients(view, head, body)
    return huffman_coded(head, coefficients)


def _split(data: bytes, grid: Grid, marker: int) -> tuple[GriddedHead, bytes]:
    """Return the head of a file for the other form, and the body of the segment left out."""
    begin, at = int(grid.offsets[0]), grid.frame - 5
    at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    if not grid.head < at < end <= begin or data[at : at + 2] != bytes([0xFF, marker]):
        raise CodecError("it is damaged: its head has another form")
    start = SOI if marker == PARAMETERS else SIGNATURE[:2]
    return GriddedHead(start + data[2:at], data[end:begin], grid), data[at + 4 : end]


def _coefficients(data: bytes, head: GriddedHead, body: bytes) -> Coefficients:
    """Decode all intervals of a file of bit planes."""
    found = read_segments(head.prefix + head.suffix + EOI)
    planes, columns, rows = planes_of(found)
    grid, count = head.grid, len(planes)
    made = Coefficients(
        np.empty(64 * sum(p.blocks for p in planes), np.int16), planes, columns, rows
    )
    shape = shape_of(made)
    per_mcu = int((shape[:, 0] * shape[:, 1]).sum())
    blocks = per_mcu * grid.interval
    parameters = new_parameters()
    fits = columns == grid.columns * grid.interval and rows == grid.rows and blocks <= MOST_BLOCKS
    if not fits or len(body) != parameters_size(count):
        raise CodecError("it is damaged: its head does not fit its grid")
    flat = np.frombuffer(data + bytes(READ_AHEAD), np.uint8)
    if not read_parameters(np.frombuffer(body, np.uint8), 0, count, parameters):
        raise CodecError("it is damaged: its parameters are not possible")
    mcu = np.repeat(np.arange(count), shape[:, 0] * shape[:, 1])
    where = np.tile(mcu, grid.interval).reshape(-1, 1).astype(np.int64)
    sizes = np.array([columns, rows, grid.interval], np.int64)
    offsets = grid.offsets.astype(np.int64)
    if not compiled(_decode_all)(flat, offsets, made.values, where, shape, sizes, parameters):
        raise CodecError("it is damaged: the data of an interval does not fit its place")
    return made


@kernel
def _decode_all(
    data: Any, offsets: Any, values: Any, where: Any, shape: Any, sizes: Any, parameters: Any
) -> Any:
    """Decode all intervals to the blocks of their components; return whether they are intact."""
    blocks = where.shape[0]
    slot = np.empty(_BLOCK * (blocks + 1), np.int16)
    places, last = np.zeros((3, 1), np.int64), np.zeros(3, np.int64)
    for turn in range(offsets.size - 1):
        places[0, 0], places[2, 0] = 8 * offsets[turn], 8 * offsets[turn + 1]
        layout = (2 * slot.size, blocks)
        if not decode_plane_intervals(data, places, 1, slot, where, layout, parameters):
            return False
        if not 0 <= places[2, 0] - places[1, 0] < 8:
            return False
        last[:] = 0
        own = np.int64(0)
        for number in range(turn * sizes[2], (turn + 1) * sizes[2]):
            y, x = number // sizes[0], number % sizes[0]
            for i in range(shape.shape[0]):
                sampling = (shape[i, 0], shape[i, 1])
                for k in range(sampling[0] * sampling[1]):
                    at = shape[i, 3] + _BLOCK * block_number(y, x, k, sampling, shape[i, 2])
                    for n in range(1, _BLOCK):
                        values[np.uint64(at + n)] = slot[np.uint64(_BLOCK * own + n)]
                    last[i] += np.int64(slot[np.uint64(_BLOCK * own)]) - DC_MARK
                    values[np.uint64(at)] = last[i]
                    own += 1
    return True
