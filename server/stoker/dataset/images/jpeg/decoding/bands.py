"""Decoding of a window, band by band: the driver of all other modules. Compiled, as two kernels.

`plane_bands` has a kernel for files of bit planes, which shares all that follows entropy decoding;
`scaled_bands` has one for fractions, which shares all but the transforms.

A band is `BAND` rows of MCUs. Its intervals are copied without stuffed bytes, decoded, summed up
and transformed; then the rows of pixels are written whose samples are there. The last row of MCUs
stays in the ring of samples, because smoothing needs it for the first pixels of the next band.
"""

from typing import Any

import numpy as np

from stoker.dataset.images.jpeg.checksums import are_intact
from stoker.dataset.images.jpeg.decoding.blocks import filled_list, list_blocks
from stoker.dataset.images.jpeg.decoding.color import convert_row
from stoker.dataset.images.jpeg.decoding.entropy import (
    BLOCK_BYTES,
    decode_intervals,
    fill_following,
)
from stoker.dataset.images.jpeg.decoding.head import (
    CODING,
    CODING_END,
    COUNT,
    H_MAX,
    HEAD_NUMBERS,
    V_MAX,
    read_head,
)
from stoker.dataset.images.jpeg.decoding.sampling import (
    WIDER,
    WIDER_TALLER,
    repeat_edges,
    upsample,
)
from stoker.dataset.images.jpeg.decoding.sizes import BAND, LANES, OTHER_FORM, PAD, RING
from stoker.dataset.images.jpeg.decoding.smoothed_rows import convert_smoothed
from stoker.dataset.images.jpeg.decoding.table_sets import take_tables
from stoker.dataset.images.jpeg.decoding.transform import transform_full, transform_sparse
from stoker.dataset.images.jpeg.decoding.unstuffing import unstuff
from stoker.dataset.images.jpeg.decoding.window import (
    ACROSS,
    BLOCKS,
    DOWN,
    END_COLUMN,
    FIRST,
    FULL,
    HEIGHT,
    IMAGE_HEIGHT,
    IMAGE_WIDTH,
    IS_PLANES,
    LAST,
    LEFT,
    LINE,
    LOWER,
    MOST,
    ORIGIN,
    OUT,
    PART_HEIGHT,
    PART_WIDTH,
    PARTS_COUNT,
    PITCH,
    PLANE,
    ROWS,
    SAMPLES_V,
    SAMPLING,
    SIDE,
    SLOT,
    SPARE,
    SPARSE,
    TABLES,
    TOP,
    UPPER,
    WIDTH,
    ask,
    fill_factors,
    fill_where,
    lay_out,
    reduce_box,
)
from stoker.dataset.images.jpeg.grid import (
    CHANGED,
    COLUMNS_AT,
    DAMAGED,
    HEIGHT_AT,
    INTERVAL_AT,
    ROWS_AT,
    WIDTH_AT,
    uint16_at,
)
from stoker.dataset.images.jpeg.planes.plane_form import has_planes, read_parameters
from stoker.dataset.images.jpeg.splice import LARGE, begins, find_cells
from stoker.jit import kernel


@kernel
def prepare(data: Any, grid: Any, numbers: Any, parts: Any, file: Any, work: Any) -> Any:
    """Find everything that does not depend on the data of intervals.

    Args:
        data: flat uint8, the file.
        grid: flat uint8, its grid.
        numbers: see `window.lay_out`; what is asked is given. It becomes that of the reduced image.
        parts: see `window.lay_out`.
        file: (where, factors, tables, codes, parameters), see `fill_where`, `fill_factors`,
            `take_tables` and `read_parameters`; tables and codes are kept from file to file.
        work: see `take_tables`.

    Returns:
        0, a status of `find_cells` for a grid that does not fit, CHANGED if a checksum differs, or
        OTHER_FORM. A grid whose markers are elsewhere is DAMAGED; but OTHER_FORM if the whole image
        is read, which needs no grid.
    """
    where, factors = file[0], file[1]
    head, cells = np.zeros(HEAD_NUMBERS, np.int64), np.zeros(4, np.int64)
    asked = np.zeros(MOST + 1, np.int64)
    ask(numbers, asked)
    status = find_cells(grid, data.shape[0], asked, cells, np.zeros(4, np.int64))
    if status not in (0, LARGE):
        return status
    if status == LARGE:
        cells[0], cells[1] = 0, uint16_at(grid, ROWS_AT)
        cells[2], cells[3] = 0, uint16_at(grid, COLUMNS_AT)
    fault = _fault_of_window(data, grid, cells, status == LARGE)
    if fault != 0:
        return fault
    if not read_head(data, grid, numbers[IMAGE_HEIGHT], numbers[IMAGE_WIDTH], head):
        return OTHER_FORM
    unit_x, unit_y = np.int64(grid[WIDTH_AT]), np.int64(grid[HEIGHT_AT])
    if unit_x != 8 * head[H_MAX] or unit_y != 8 * head[V_MAX]:
        return OTHER_FORM
    reduce_box(numbers)
    if not lay_out(grid, head, cells, numbers, parts):
        return OTHER_FORM
    fill_where(head, parts, uint16_at(grid, INTERVAL_AT), where)
    fill_factors(data, parts, head[COUNT], factors)
    numbers[PARTS_COUNT], numbers[IS_PLANES] = head[COUNT], has_planes(data)
    return 0 if _read_coding(data, head, numbers, file, work) else OTHER_FORM


@kernel
def _read_coding(data: Any, head: Any, numbers: Any, file: Any, work: Any) -> Any:
    """Read parameters of bit planes, or find the tables of Huffman codes.

    Returns:
        Whether the parameters are possible; codes were checked with the head.
    """
    _, _, tables, codes, parameters = file
    place, size = head[CODING], head[CODING_END] - head[CODING]
    if numbers[IS_PLANES]:
        return read_parameters(data, place, head[COUNT], parameters)
    count = 2 if head[COUNT] == 1 else 4
    numbers[TABLES] = take_tables(data, place, size, count, tables, codes, work)
    return True


@kernel
def _fault_of_window(data: Any, grid: Any, cells: Any, whole: bool) -> Any:
    """Return 0, or what `prepare` returns if the intervals of a window are not the grid's."""
    if not are_intact(data, grid, cells, whole):
        return CHANGED
    if has_planes(data):
        return 0
    if _has_markers(data, grid, cells):
        return 0
    return OTHER_FORM if whole else DAMAGED


@kernel
def _has_markers(data: Any, grid: Any, cells: Any) -> Any:
    """Return whether each interval has the right marker before it and after it."""
    columns = uint16_at(grid, COLUMNS_AT)
    fits = begins(data, grid, 0)
    for y in range(cells[0], cells[1]):
        for x in range(cells[2], cells[3] + 1):
            fits = fits and begins(data, grid, y * columns + x)
    return fits


@kernel
def decode(data: Any, grid: Any, numbers: Any, parts: Any, file: Any, memory: Any, out: Any) -> Any:
    """Decode the box that was prepared, of a file with Huffman codes.

    Args:
        data: flat uint8, the file.
        grid: flat uint8, its grid.
        numbers: as `prepare` left it.
        parts: as `prepare` left it.
        file: as `prepare` left it.
        memory: (following, plain, places, coefficients, planes, jobs), of at least the sizes in
            `numbers`: flat int64, flat uint8, (3, CELLS or more) int64, flat int16 aligned to a
            slot, flat uint8 and flat int64; contents undefined.
        out: flat uint8, receives rows of RGB.

    Returns:
        Whether the data is intact.
    """
    where, factors, all_tables, all_codes, _ = file
    tables, codes = all_tables[numbers[TABLES]], all_codes[numbers[TABLES]]
    following, plain, places, coefficients, planes, jobs = memory
    interval = uint16_at(grid, INTERVAL_AT)
    fill_following(parts, numbers[PARTS_COUNT], interval, numbers[SLOT], tables, following)
    shape = (numbers[SLOT], BLOCK_BYTES * numbers[BLOCKS], tables)
    sources = (coefficients, places, where, interval)
    targets = (planes, jobs, np.empty(64 * LANES, np.int16), out)
    for upper in range(numbers[UPPER], numbers[LOWER], BAND):
        rows = (upper, min(upper + BAND, numbers[LOWER]))
        if not copy_band(data, grid, rows, numbers, plain, places):
            return False
        found = intervals_of(rows, numbers)
        for cell in range(found):
            first = cell * numbers[SLOT] // 2
            coefficients[first : first + 64 * numbers[BLOCKS] + 1] = 0
        decode_intervals(plain, places, found, coefficients, following, codes, shape)
        if not finish_band(rows, numbers, parts, factors, sources, targets):
            return False
    return True


@kernel
def copy_band(data: Any, grid: Any, rows: Any, numbers: Any, plain: Any, places: Any) -> Any:
    """Copy the data of a band's intervals without stuffed bytes; return whether it is intact."""
    to = np.int64(0)
    for y in range(rows[0], rows[1]):
        cells, number = cells_of(grid, y, numbers), intervals_of((rows[0], y), numbers)
        to = unstuff(data, grid, cells, plain, to, places, number)
        if to < 0:
            return False
    return True


@kernel
def intervals_of(rows: Any, numbers: Any) -> Any:
    """Return how many intervals of the window some rows of MCUs have, from and to a row."""
    return (rows[1] - rows[0]) * (numbers[LAST] - numbers[FIRST])


@kernel
def cells_of(grid: Any, y: Any, numbers: Any) -> tuple[Any, Any]:
    """Return the first interval of the window in a row of MCUs, and one more than the last."""
    begin = y * uint16_at(grid, COLUMNS_AT)
    return begin + numbers[FIRST], begin + numbers[LAST]


@kernel
def finish_band(
    rows: Any, numbers: Any, parts: Any, factors: Any, sources: Any, targets: Any
) -> Any:
    """Make rows of pixels of a band's coefficients; bands come from the top to the bottom.

    Args:
        rows: first row of MCUs, one more than the last.
        numbers: as `prepare` left it.
        parts: as `prepare` left it; changed as by `list_blocks`.
        factors: see `fill_factors`.
        sources: (coefficients, places, where, MCUs of an interval); places are of the band.
        targets: (planes, jobs, scratch, out), scratch being flat int16 of `64 * LANES`.

    Returns:
        Whether the data is intact.
    """
    coefficients, places, where, interval = sources
    planes, jobs, scratch, out = targets
    if not list_blocks(coefficients, places, where, numbers, parts, rows, jobs, interval):
        return False
    _make_samples(coefficients, jobs, factors, planes, parts, numbers, scratch, rows)
    write_band(rows, numbers, parts, planes, out)
    return True


@kernel
def write_band(rows: Any, numbers: Any, parts: Any, planes: Any, out: Any) -> None:
    """Write the rows of pixels whose samples are there; arguments as of `finish_band`."""
    if numbers[PARTS_COUNT] == 1:
        for i in range(numbers[WIDTH] + PAD):
            planes[np.uint64(numbers[ROWS] + i)] = 128
    ready = (_first_waiting(rows[0], numbers, parts), _first_waiting(rows[1], numbers, parts))
    _write_rows(planes, parts, numbers, ready, out)


@kernel
def _first_waiting(y: Any, numbers: Any, parts: Any) -> Any:
    """Return the first row of pixels that needs samples of a row of MCUs, or of later ones."""
    bottom, high = numbers[TOP] + numbers[HEIGHT], parts[0, SAMPLES_V]
    if y == numbers[LOWER]:
        return bottom
    smoothed = high if high > 1 else 0
    return min(max(parts[0, SIDE] * high * y - smoothed, numbers[TOP]), bottom)


@kernel
def _make_samples(
    coefficients: Any, jobs: Any, factors: Any, planes: Any, parts: Any, numbers: Any, scratch: Any,
    rows: Any,
) -> None:  # fmt: skip
    """Transform the listed blocks of a band, and repeat its edges."""
    for i in range(numbers[PARTS_COUNT]):
        transform_part(coefficients, jobs, factors[i], planes, parts[i], numbers, scratch)
        repeat_part(planes, parts[i], rows)


@kernel
def transform_part(
    coefficients: Any, jobs: Any, factors: Any, planes: Any, part: Any, numbers: Any, scratch: Any
) -> None:
    """Transform the listed blocks of a component."""
    pitch = part[PITCH]
    begin, end = filled_list(jobs, part, FULL, numbers)
    for at in range(begin, end, 2 * LANES):
        transform_full(coefficients, jobs, at, factors, planes, pitch, scratch)
    begin, end = filled_list(jobs, part, SPARSE, numbers)
    for at in range(begin, end, 2 * LANES):
        transform_sparse(coefficients, jobs, at, factors, planes, pitch, scratch)


@kernel
def repeat_part(planes: Any, part: Any, rows: Any) -> None:
    """Repeat the edges of a component in the lines of a band, if it is smoothed across."""
    if part[ACROSS] == 1:
        return
    first = -part[ORIGIN] if part[ORIGIN] == 0 else np.int64(-1)
    end = part[END_COLUMN] * part[SIDE]
    last = part[PART_WIDTH] - 1 - part[ORIGIN] if end >= part[PART_WIDTH] else np.int64(-1)
    for y in range(rows[0], rows[1]):
        lines = part[SIDE] * part[SAMPLES_V]
        at = part[PLANE] + y % RING * lines * part[PITCH]
        repeat_edges(planes, at, part[PITCH], lines, first, last)


@kernel
def _write_rows(planes: Any, parts: Any, numbers: Any, rows: Any, out: Any) -> None:
    """Write rows of pixels, from and to a row of the image."""
    both = parts[1, SAMPLING], parts[2, SAMPLING]
    if numbers[PARTS_COUNT] > 1 and both in ((WIDER, WIDER), (WIDER_TALLER, WIDER_TALLER)):
        _write_smoothed_rows(planes, parts, numbers, rows, out)
        return
    span = (numbers[LEFT], numbers[WIDTH])
    for y in range(rows[0], rows[1]):
        luma, _ = _lines(parts[0], y)
        blue = red = numbers[ROWS]
        if numbers[PARTS_COUNT] > 1:
            part = parts[1]
            ratio = (part[ACROSS], 2 * (y % part[DOWN]) >= part[DOWN])
            to = numbers[ROWS]
            blue = upsample(planes, part[SAMPLING], ratio, _lines(part, y), span, to)
            to += numbers[WIDTH] + 2 * PAD
            red = upsample(planes, part[SAMPLING], ratio, _lines(parts[2], y), span, to)
        to = numbers[OUT] + (y - numbers[TOP]) * numbers[LINE]
        place = luma + numbers[LEFT]
        convert_row(planes, place, blue, red, out, to, numbers[WIDTH], numbers[SPARE])


@kernel
def _write_smoothed_rows(planes: Any, parts: Any, numbers: Any, rows: Any, out: Any) -> None:
    """Do the same if both components of chroma have half the width and are smoothed."""
    span = (numbers[LEFT], numbers[WIDTH])
    rooms = (numbers[ROWS], numbers[ROWS] + numbers[WIDTH] + 2 * PAD, numbers[SPARE])
    to_red = parts[2, PLANE] - parts[1, PLANE]
    is_taller = parts[1, SAMPLING] == WIDER_TALLER
    rounding = (8, 7) if is_taller else (4, 8)
    for y in range(rows[0], rows[1]):
        luma = _line(parts[0], y) + numbers[LEFT]
        near, far = _lines(parts[1], y)
        far = far if is_taller else near
        to = numbers[OUT] + (y - numbers[TOP]) * numbers[LINE]
        chroma = (near, far), (near + to_red, far + to_red)
        convert_smoothed(planes, luma, chroma, span, rounding, out, to, rooms)


@kernel
def _lines(part: Any, y: Any) -> tuple[Any, Any]:
    """Return where sample 0 would be in the line of row y, and in the next line to smooth with."""
    line = y // part[DOWN]
    next_line = line + 1 if 2 * (y - line * part[DOWN]) >= part[DOWN] else line - 1
    next_line = min(max(next_line, 0), part[PART_HEIGHT] - 1)
    return _line(part, line), _line(part, next_line)


@kernel
def _line(part: Any, line: Any) -> Any:
    """Return where sample 0 of a line would be."""
    ring = RING * part[SIDE] * part[SAMPLES_V]
    return part[PLANE] - part[ORIGIN] + line % ring * part[PITCH]
