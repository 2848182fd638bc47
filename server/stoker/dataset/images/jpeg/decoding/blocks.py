"""From decoded intervals to lists of blocks for the transform: DC, damage, and what a box needs.

A block's DC is stored as a difference with a mark. A run that leaves its block leaves the next DC
without a mark, or with a value too small for one, so every such run is found. The place behind the
last block has the mark of the table that follows it. Compiled.
"""

from typing import Any

import numpy as np

from stoker.dataset.images.jpeg.decoding.sizes import (
    DC_MARK,
    DC_MOST,
    FIRST_TEN,
    LANES,
    RING,
)
from stoker.dataset.images.jpeg.decoding.unstuffing import ENDS, STOPS
from stoker.dataset.images.jpeg.decoding.window import (
    BLOCKS,
    DUMMY,
    END_COLUMN,
    END_ROW,
    FIRST,
    FIRST_COLUMN,
    FIRST_ROW,
    FULL,
    JOB_LIST,
    LAST,
    ORIGIN,
    PITCH,
    PLANE,
    SAMPLES_H,
    SAMPLES_V,
    SIDE,
    SLOT,
    SPARSE,
)
from stoker.jit import kernel


@kernel
def list_blocks(
    coefficients: Any, places: Any, where: Any, numbers: Any, parts: Any, rows: Any, jobs: Any,
    interval: Any,
) -> Any:  # fmt: skip
    """List the blocks of a band that the box needs; return whether all intervals are intact.

    Args:
        coefficients: flat int16, decoded; DC becomes the sum of the differences.
        places: (3, intervals or more) int64: where decoding ended, and should have.
        where: from `fill_where`.
        numbers: from `lay_out`.
        parts: from `lay_out`; receives the ends of the lists.
        rows: (first MCU row, one more than the last).
        jobs: flat int64, two lists for each component, see `transform_full`.
        interval: MCUs.
    """
    for i in range(3):
        parts[i, FULL] = 2 * i * numbers[JOB_LIST]
        parts[i, SPARSE] = (2 * i + 1) * numbers[JOB_LIST]
    blocks, number = numbers[BLOCKS], np.int64(0)
    for y in range(rows[0], rows[1]):
        for x in range(numbers[FIRST], numbers[LAST]):
            left = places[STOPS, number] - places[ENDS, number]
            slot = number * numbers[SLOT] // 2
            if left < 0 or left > 7 or coefficients[slot + 64 * blocks] != DC_MARK:
                return False
            if not _list_interval(coefficients, slot, where, blocks, parts, y, x * interval, jobs):
                return False
            number += 1
    return True


@kernel
def _list_interval(
    coefficients: Any, slot: Any, where: Any, blocks: Any, parts: Any, y: Any, x: Any, jobs: Any
) -> Any:
    """List the blocks of one interval, which begins at MCU (y, x)."""
    luma, blue, red = np.int64(0), np.int64(0), np.int64(0)
    for k in range(blocks):
        at = slot + 64 * k
        i = where[k, 0]
        difference = np.int64(coefficients[np.uint64(at)]) - DC_MARK
        if difference < -DC_MOST or difference > DC_MOST:
            return False
        if i == 0:
            luma += difference
            difference = luma
        elif i == 1:
            blue += difference
            difference = blue
        else:
            red += difference
            difference = red
        coefficients[np.uint64(at)] = np.int16(difference)
        row = y * parts[i, SAMPLES_V] + where[k, 2]
        column = x * parts[i, SAMPLES_H] + where[k, 1]
        if not parts[i, FIRST_ROW] <= row < parts[i, END_ROW]:
            continue
        if not parts[i, FIRST_COLUMN] <= column < parts[i, END_COLUMN]:
            continue
        side = parts[i, SIDE]
        line = row % (RING * parts[i, SAMPLES_V]) * side
        target = parts[i, PLANE] + line * parts[i, PITCH] + side * column - parts[i, ORIGIN]
        kind = SPARSE if side > 1 and is_sparse(coefficients, at) else FULL
        end = parts[i, kind]
        jobs[np.uint64(end)], jobs[np.uint64(end + 1)] = at, target
        parts[i, kind] = end + 2
    return True


@kernel(twin="stoker.dataset.images.jpeg.decoding.simd.memory:is_sparse")
def is_sparse(coefficients: Any, at: Any) -> bool:
    """Return whether the coefficients of a block are zero from the eleventh on."""
    return not coefficients[at + FIRST_TEN : at + 64].any()


@kernel
def filled_list(jobs: Any, part: Any, kind: Any, numbers: Any) -> tuple[Any, Any]:
    """Return where a list of a component begins and ends: FULL or SPARSE.

    The list gets its first block again until it has a multiple of LANES; nothing reads the samples
    of these.
    """
    end = part[kind]
    begin = end // numbers[JOB_LIST] * numbers[JOB_LIST]
    while (end - begin) % (2 * LANES):
        jobs[end], jobs[end + 1] = jobs[begin], numbers[DUMMY]
        end += 2
    return begin, end
