"""The window of a box: the intervals, blocks and samples that it needs, and their memory. Compiled.

Intervals are those that the splicer takes, so both ways to decode find the same damage. Only the
blocks are transformed that the box and the smoothing of its chroma read.

The samples of a component are in a ring of MCU rows, `RING * side * v` lines. A line has `PAD`
bytes, the samples of the window's intervals, and `PAD` bytes. A block makes `side` by `side`
samples: 8 if the image is decoded at its size. At a fraction, places are those of the reduced
image.
"""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.decoding.entropy import bytes_read, slot_bytes
from stoker.dataset.images.jpeg.decoding.head import (
    COUNT,
    ELEMENTS,
    H_MAX,
    PART,
    PARTS,
    V_MAX,
    WIDE,
    H,
    V,
)
from stoker.dataset.images.jpeg.decoding.sampling import SAME, sampling_of
from stoker.dataset.images.jpeg.decoding.sizes import BAND, LANES, MOST_BLOCKS, PAD, RING, STREAMS
from stoker.dataset.images.jpeg.grid import COLUMNS_AT, INTERVAL_AT, offset_at, uint16_at
from stoker.jit import kernel

TOP, LEFT, HEIGHT, WIDTH, IMAGE_HEIGHT, IMAGE_WIDTH, MOST, OUT, LINE = range(9)
"""Asked: the box, the image's size, pixels of the largest window that is not the whole image, the
place of the box in the output, and bytes from row to row there."""
UPPER, LOWER, FIRST, LAST, BLOCKS, SLOT = range(9, 15)
"""Found: rows and columns of intervals, blocks of an interval, bytes of its slot."""
FOLLOWING, PLAIN, CELLS, COEFFICIENTS, PLANES, JOBS = range(15, 21)
"""Found: sizes of the parts of `bands.decode`'s memory, in their order: elements, or columns."""
JOB_LIST, ROWS, SPARE, DUMMY, PARTS_COUNT, TABLES, IS_PLANES = range(21, 28)
"""Found: numbers of a list of jobs; places in `planes`; components; place of the Huffman tables;
whether intervals are bit planes."""
DIVISOR: Final = 28
"""Asked: 1, 2, 4 or 8, what both sides of the image are divided by."""
NUMBERS: Final = DIVISOR + 1

(
    SAMPLES_H, SAMPLES_V, QUANTIZER, WIDE_QUANTIZER, SAMPLING, ACROSS, DOWN, FIRST_COLUMN,
    END_COLUMN, FIRST_ROW, END_ROW, ORIGIN, PLANE, PITCH, PART_WIDTH, PART_HEIGHT, FULL, SPARSE,
    SIDE,
) = range(19)  # fmt: skip
"""Numbers of a component: sampling factors, place and width of its quantization, `sampling_of`,
ratio to full resolution, blocks that are transformed, the window's first sample, the place of that
sample in line 0, bytes of a line, size in samples, ends of its two lists of jobs, samples of a
block in each direction."""
PART_NUMBERS: Final = SIDE + 1
SCALED_MARGIN: Final = 4
"""Pixels of a reduced image around a box that must be intact; smoothing reads fewer."""


@kernel
def ask(numbers: Any, asked: Any) -> None:
    """Fill what `splice.find_cells` is asked: the box, wider in an image that gets reduced.

    The splicer is asked for the same box (`scaled_decoding`), so both find the same damage.

    Args:
        numbers: see `lay_out`; what is asked is given.
        asked: (MOST + 1,) int64.
    """
    asked[:] = numbers[: MOST + 1]
    if numbers[DIVISOR] == 1:
        return
    margin = SCALED_MARGIN * numbers[DIVISOR]
    for place, length, whole in ((TOP, HEIGHT, IMAGE_HEIGHT), (LEFT, WIDTH, IMAGE_WIDTH)):
        begin, end = numbers[place] - margin, numbers[place] + numbers[length] + margin
        asked[place] = max(begin, 0)
        asked[length] = min(end, numbers[whole]) - asked[place]


@kernel
def reduce_box(numbers: Any) -> None:
    """Replace box and image by the pixels of the reduced image that they touch."""
    divisor = numbers[DIVISOR]
    for place, length, whole in ((TOP, HEIGHT, IMAGE_HEIGHT), (LEFT, WIDTH, IMAGE_WIDTH)):
        numbers[place], numbers[length] = touched_axis(numbers[place], numbers[length], divisor)
        _, numbers[whole] = touched_axis(0, numbers[whole], divisor)


@kernel
def touched_axis(first: Any, count: Any, divisor: Any) -> tuple[Any, Any]:
    """Return first pixel and number of the pixels of a reduced axis that a part of it touches.

    Ops have the same rule (`stoker.ops.bases.scaled_box`): they cannot import datasets, and packers
    do not import ops, which takes a fifth of a second.
    """
    start = first // divisor
    return start, (first + count - 1) // divisor + 1 - start


@kernel
def lay_out(grid: Any, head: Any, cells: Any, numbers: Any, parts: Any) -> Any:
    """Fill `numbers` and `parts`; return whether the intervals are short enough.

    Args:
        grid: flat uint8, a grid without fault.
        head: from `read_head`.
        cells: intervals of the window: rows from, to, columns from, to.
        numbers: (NUMBERS,) int64; what is asked is given, after `reduce_box`.
        parts: (3, PART_NUMBERS) int64.
    """
    interval = uint16_at(grid, INTERVAL_AT)
    upper, lower, first, last = cells
    numbers[UPPER], numbers[LOWER], numbers[FIRST], numbers[LAST] = upper, lower, first, last
    count, blocks, place = head[COUNT], np.int64(0), np.int64(0)
    most_pitch, least = np.int64(0), 8 // numbers[DIVISOR]
    for i in range(count):
        part, own = parts[i], PARTS + PART * i
        h, v = head[own + H], head[own + V]
        part[SAMPLES_H], part[SAMPLES_V] = h, v
        part[QUANTIZER], part[WIDE_QUANTIZER] = head[own + ELEMENTS], head[own + WIDE]
        side = _side(head[H_MAX] * least, h, head[V_MAX] * least, v, least)
        across, down = head[H_MAX] * least // (h * side), head[V_MAX] * least // (v * side)
        part[SIDE] = side
        width = (numbers[IMAGE_WIDTH] + across - 1) // across
        height = (numbers[IMAGE_HEIGHT] + down - 1) // down
        part[ACROSS], part[DOWN], part[PART_WIDTH], part[PART_HEIGHT] = across, down, width, height
        part[SAMPLING] = sampling_of(across, down, width, least)
        margin = 0 if part[SAMPLING] == SAME else 1
        begin, end = _blocks(numbers[LEFT], numbers[WIDTH], across, (margin, width, side))
        part[FIRST_COLUMN], part[END_COLUMN] = begin, end
        begin, end = _blocks(numbers[TOP], numbers[HEIGHT], down, (margin, height, side))
        part[FIRST_ROW], part[END_ROW] = begin, end
        part[ORIGIN] = first * interval * h * side
        part[PITCH] = (last - first) * interval * h * side + 2 * PAD
        part[PLANE] = place + PAD
        place += part[PITCH] * RING * side * v
        most_pitch = max(most_pitch, part[PITCH])
        blocks += h * v * interval
    numbers[BLOCKS], numbers[SLOT] = blocks, slot_bytes(blocks)
    if blocks > MOST_BLOCKS:
        return False
    _find_sizes(grid, numbers, place, most_pitch)
    return True


@kernel
def _find_sizes(grid: Any, numbers: Any, place: Any, most_pitch: Any) -> None:
    """Find the sizes of all memory; the lines of all components end at `place`."""
    upper, lower, first, last = numbers[UPPER], numbers[LOWER], numbers[FIRST], numbers[LAST]
    columns, blocks = uint16_at(grid, COLUMNS_AT), numbers[BLOCKS]
    row = numbers[WIDTH] + 2 * PAD
    numbers[DUMMY], numbers[ROWS] = place, place + 8 * most_pitch
    numbers[SPARE] = numbers[ROWS] + 2 * row
    numbers[PLANES] = numbers[SPARE] + 2 * PAD
    cell_count = min(BAND, lower - upper) * (last - first)
    numbers[CELLS] = cell_count + STREAMS
    numbers[COEFFICIENTS] = numbers[CELLS] * numbers[SLOT] // 2
    numbers[FOLLOWING] = numbers[SLOT] // 2
    numbers[JOB_LIST] = 2 * (cell_count * blocks + LANES)
    numbers[JOBS] = 6 * numbers[JOB_LIST]
    longest = np.int64(0)
    for y in range(upper, lower):
        begin = offset_at(grid, y * columns + first)
        longest = max(longest, offset_at(grid, y * columns + last) - begin)
    numbers[PLAIN] = BAND * longest + bytes_read(blocks) + PAD


@kernel
def _side(across: Any, h: Any, down: Any, v: Any, least: Any) -> Any:
    """Return the samples of a component's block in each direction, as jdmaster.c chooses them.

    A component that has fewer samples than luma gets more of them from each of its blocks, up to 8,
    if that saves upsampling in both directions.

    Args:
        across: samples of luma in the width of an MCU.
        h: blocks of the component in it.
        down: samples of luma in its height.
        v: blocks of the component in it.
        least: samples of a block of luma, 1 to 8.
    """
    side = least
    while side < 8 and across % (2 * h * side) == 0 and down % (2 * v * side) == 0:
        side *= 2
    return side


@kernel
def _blocks(begin: Any, length: Any, ratio: Any, limits: Any) -> tuple[Any, Any]:
    """Return the first block in one direction that a box needs, and one more than the last.

    `limits` is (samples of margin, samples of the component, samples of a block).
    """
    margin, most, side = limits
    low = max(begin // ratio - margin, 0)
    high = min((begin + length - 1) // ratio + margin, most - 1)
    return low // side, high // side + 1


@kernel
def fill_where(head: Any, parts: Any, interval: Any, where: Any) -> None:
    """Fill, for each block of an interval, its component and its place there.

    Args:
        head: from `read_head`.
        parts: sampling factors first.
        interval: MCUs.
        where: (MOST_BLOCKS, 3) int64: component, column and row among the interval's blocks.
    """
    k = 0
    for mcu in range(interval):
        for i in range(head[COUNT]):
            h = parts[i, SAMPLES_H]
            for n in range(h * parts[i, SAMPLES_V]):
                where[k, 0], where[k, 1], where[k, 2] = i, mcu * h + n % h, n // h
                k += 1


@kernel
def fill_factors(data: Any, parts: Any, count: Any, factors: Any) -> None:
    """Fill the quantization of each component, every number once for each lane.

    Args:
        data: flat uint8, the file.
        parts: places of the tables.
        count: components.
        factors: (3, 64 * LANES) int16.
    """
    for i in range(count):
        place, wide = parts[i, QUANTIZER], parts[i, WIDE_QUANTIZER]
        for k in range(64):
            value = np.int64(data[place + (k << wide)])
            if wide:
                value = value << 8 | np.int64(data[place + 2 * k + 1])
            for lane in range(LANES):
                factors[i, np.uint64(LANES * k + lane)] = np.int16(value)
