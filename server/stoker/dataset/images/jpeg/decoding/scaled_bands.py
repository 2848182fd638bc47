"""Decoding of a window at 1/2, 1/4 or 1/8, band by band. Compiled, as one kernel.

It replaces `bands.decode`, which has no code of fractions, so only pipelines with `decode="scaled"`
compile it. `bands.prepare` reads heads, and replaces box and image by those of the reduced image;
`bands.write_band` writes rows of pixels. Of blocks that become one sample, only DC is decoded;
`skipping` goes over the rest.
"""

from typing import Any

import numpy as np

from stoker.dataset.images.jpeg.decoding.bands import (
    copy_band,
    intervals_of,
    repeat_part,
    transform_part,
    write_band,
)
from stoker.dataset.images.jpeg.decoding.blocks import filled_list, list_blocks
from stoker.dataset.images.jpeg.decoding.entropy import (
    BLOCK_BYTES,
    decode_intervals,
    fill_following,
)
from stoker.dataset.images.jpeg.decoding.reduced_transform import (
    only_levels,
    sparse_2,
    sparse_4,
    transform_2,
    transform_4,
)
from stoker.dataset.images.jpeg.decoding.sizes import BAND, LANES
from stoker.dataset.images.jpeg.decoding.skipping import fill_skips, skip_following
from stoker.dataset.images.jpeg.decoding.window import (
    BLOCKS,
    FULL,
    LOWER,
    PARTS_COUNT,
    PITCH,
    SIDE,
    SLOT,
    SPARSE,
    TABLES,
    UPPER,
)
from stoker.dataset.images.jpeg.grid import INTERVAL_AT, uint16_at
from stoker.jit import kernel


@kernel
def decode_reduced(
    data: Any, grid: Any, numbers: Any, parts: Any, file: Any, memory: Any, out: Any
) -> Any:
    """Decode the box that was prepared, of the reduced image; otherwise as `bands.decode`."""
    where, factors, all_tables, all_codes, _ = file
    tables, codes = all_tables[numbers[TABLES]], all_codes[numbers[TABLES]]
    following, plain, places, coefficients, planes, jobs = memory
    interval = uint16_at(grid, INTERVAL_AT)
    fill_following(parts, numbers[PARTS_COUNT], interval, numbers[SLOT], tables, following)
    if parts[0, SIDE] == 1:
        fill_skips(tables, numbers[PARTS_COUNT])
        skip_following(parts, where, numbers[BLOCKS], tables, following)
    shape = (numbers[SLOT], BLOCK_BYTES * numbers[BLOCKS], tables)
    scratch = np.empty(64 * LANES, np.int16)
    for upper in range(numbers[UPPER], numbers[LOWER], BAND):
        rows = (upper, min(upper + BAND, numbers[LOWER]))
        if not copy_band(data, grid, rows, numbers, plain, places):
            return False
        found = intervals_of(rows, numbers)
        for cell in range(found):
            _clear(coefficients, cell * numbers[SLOT] // 2, where, numbers[BLOCKS], parts)
        decode_intervals(plain, places, found, coefficients, following, codes, shape)
        if not list_blocks(coefficients, places, where, numbers, parts, rows, jobs, interval):
            return False
        for i in range(numbers[PARTS_COUNT]):
            _transform(coefficients, jobs, factors[i], planes, parts[i], numbers, scratch)
            repeat_part(planes, parts[i], rows)
        write_band(rows, numbers, parts, planes, out)
    return True


@kernel
def _clear(coefficients: Any, at: Any, where: Any, blocks: Any, parts: Any) -> None:
    """Clear what is read of an interval's slot: blocks, or their DC; and the place of the mark."""
    for k in range(np.uint64(blocks)):
        begin = np.uint64(at) + np.uint64(64) * k
        if parts[where[k, 0], SIDE] == 1:
            coefficients[begin] = 0
        else:
            for j in range(np.uint64(64)):
                coefficients[begin + j] = 0
    coefficients[np.uint64(at + 64 * blocks)] = 0


@kernel
def _transform(
    coefficients: Any, jobs: Any, factors: Any, planes: Any, part: Any, numbers: Any, scratch: Any
) -> None:
    """Transform the listed blocks of a component to as many samples as it has."""
    if part[SIDE] == 8:
        transform_part(coefficients, jobs, factors, planes, part, numbers, scratch)
        return
    begin, end = filled_list(jobs, part, FULL, numbers)
    if part[SIDE] == 1:
        only_levels(coefficients, jobs, begin, end, factors, planes)
        return
    small, pitch = part[SIDE] == 2, part[PITCH]
    for at in range(begin, end, 2 * LANES):
        if small:
            transform_2(coefficients, jobs, at, factors, planes, pitch, scratch)
        else:
            transform_4(coefficients, jobs, at, factors, planes, pitch, scratch)
    begin, end = filled_list(jobs, part, SPARSE, numbers)
    for at in range(begin, end, 2 * LANES):
        if small:
            sparse_2(coefficients, jobs, at, factors, planes, pitch, scratch)
        else:
            sparse_4(coefficients, jobs, at, factors, planes, pitch, scratch)
