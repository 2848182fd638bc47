"""Reading the head of a gridded JPEG, and deciding whether this decoder covers the file.

A head is covered if it has exactly the form that `grid_rewrite` writes: Adobe's segments, one DQT,
one frame, one DHT, DRI and SOS, and the color space is gray or YCbCr by the rules of libjpeg. All
else is left to libjpeg-turbo, which then also judges heads that are damaged. Compiled.
"""

from typing import Any, Final

import numpy as np

from stoker.dataset.images.jpeg.grid import (
    HEAD_AT,
    INTERVAL_AT,
    JFIF_AT,
    offset_at,
    uint16_at,
    uint32_at,
)
from stoker.dataset.images.jpeg.planes.plane_form import PARAMETERS, has_planes, parameters_size
from stoker.jit import kernel

COUNT, H_MAX, V_MAX, CODING, CODING_END = range(5)
PARTS: Final = 5
"""The place of the first component; each has `PART` numbers."""
PART: Final = 4
H, V, ELEMENTS, WIDE = range(PART)
_TABLES: Final = PARTS + 3 * PART
"""The place of the first of four quantization tables: place of its elements, 1 for 16 bits."""
HEAD_NUMBERS: Final = _TABLES + 8
_KINDS: Final = (0x00, 0x10, 0x01, 0x11)
"""First bytes of the four Huffman tables, in their order: DC and AC of luma, then of chroma."""
_LARGEST_AC, _LARGEST_DC = 10, 11
"""Most bits of a value in baseline files."""


@kernel
def read_head(data: Any, grid: Any, height: Any, width: Any, head: Any) -> Any:
    """Read the head of a file; return whether it is covered.

    Args:
        data: flat uint8, the file.
        grid: flat uint8, a grid without fault (`grid.fault_of`).
        height: of the stored image.
        width: of the stored image.
        head: (HEAD_NUMBERS,) int64, receives what decoding needs.
    """
    stop = offset_at(grid, 0)
    head[:] = 0
    adobe, place = _adobe(data, uint32_at(grid, HEAD_AT), stop)
    end = _segment(data, place, stop, 0xDB)
    if end < 0 or not _quantizers(data, place + 4, end, head):
        return False
    frame = end
    end = _segment(data, frame, stop, 0xC0)
    if end < 0:
        end = _segment(data, frame, stop, 0xC1)
    if end < 0 or not _frame(data, frame, end, head):
        return False
    if _big(data, frame + 5) != height or _big(data, frame + 7) != width:
        return False
    if head[COUNT] == 3 and not _is_ycc(data, grid, adobe, frame):
        return False
    return _has_codes(data, end, stop, frame, uint16_at(grid, INTERVAL_AT), head)


@kernel
def _adobe(data: Any, place: Any, stop: Any) -> tuple[Any, Any]:
    """Return (the color transform of Adobe's segment, where it ends).

    The transform is -1 without a segment, and 0 for several or one of another form.
    """
    found = np.int64(-1)
    end = _segment(data, place, stop, 0xEE)
    while end >= 0:
        named = end - place >= 16 and data[place + 4] == 0x41
        found = np.int64(data[place + 15]) if named and found < 0 else np.int64(0)
        place = end
        end = _segment(data, place, stop, 0xEE)
    return found, place


@kernel
def _has_codes(data: Any, place: Any, stop: Any, frame: Any, interval: Any, head: Any) -> Any:
    """Note what codes the intervals; return whether the rest of the head has the usual form."""
    if has_planes(data):
        end = _segment(data, place, stop, PARAMETERS)
        if end - place != 4 + parameters_size(head[COUNT]):
            return False
    else:
        end = _segment(data, place, stop, 0xC4)
        if end < 0 or not _huffman(data, place + 4, end, 2 if head[COUNT] == 1 else 4):
            return False
    head[CODING], head[CODING_END] = place + 4, end
    place = end
    end = _segment(data, place, stop, 0xDD)
    if end != place + 6 or _big(data, place + 4) != interval:
        return False
    return _scan(data, end, stop, frame, head[COUNT])


@kernel
def _big(data: Any, place: Any) -> Any:
    return np.int64(data[place]) << 8 | np.int64(data[place + 1])


@kernel
def _segment(data: Any, place: Any, stop: Any, marker: Any) -> Any:
    """Return the end of the segment at a place; -1 if it is another one, or too long."""
    if place + 4 > stop or data[place] != 0xFF or data[place + 1] != marker:
        return -1
    end = place + 2 + _big(data, place + 2)
    return end if place + 4 <= end <= stop else -1


@kernel
def _quantizers(data: Any, place: Any, end: Any, head: Any) -> Any:
    """Note the places of the quantization tables; return whether they have the usual form."""
    while place < end:
        wide, number = np.int64(data[place] >> 4), np.int64(data[place] & 15)
        if wide > 1 or number > 3 or head[_TABLES + 2 * number] or place + 65 + 64 * wide > end:
            return False
        head[_TABLES + 2 * number], head[_TABLES + 2 * number + 1] = place + 1, wide
        place += 65 + 64 * wide
    return True


@kernel
def _frame(data: Any, place: Any, end: Any, head: Any) -> Any:
    """Note the components; return whether the first has full resolution, and others the same."""
    if end - place < 10 or data[place + 4] != 8:
        return False
    count = np.int64(data[place + 9])
    if count not in (1, 3) or end - place != 10 + 3 * count:
        return False
    head[COUNT] = count
    for i in range(count):
        at, part = place + 10 + 3 * i, PARTS + PART * i
        number = np.int64(data[at + 2])
        if number > 3 or head[_TABLES + 2 * number] == 0:
            return False
        head[part + H], head[part + V] = np.int64(data[at + 1] >> 4), np.int64(data[at + 1] & 15)
        head[part + ELEMENTS] = head[_TABLES + 2 * number]
        head[part + WIDE] = head[_TABLES + 2 * number + 1]
    head[H_MAX], head[V_MAX] = head[PARTS + H], head[PARTS + V]
    if count == 1:
        return head[H_MAX] == 1 and head[V_MAX] == 1
    return _divides(head)


@kernel
def _divides(head: Any) -> Any:
    """Return whether both chroma components divide luma, in the same way."""
    second, third = PARTS + PART, PARTS + 2 * PART
    h, v, own_h, own_v = head[H_MAX], head[V_MAX], head[second + H], head[second + V]
    if not 1 <= own_h <= h <= 4 or not 1 <= own_v <= v <= 4:
        return False
    if own_h != head[third + H] or own_v != head[third + V]:
        return False
    return h % own_h == 0 and v % own_v == 0 and h * v + 2 * own_h * own_v <= 10


@kernel
def _is_ycc(data: Any, grid: Any, adobe: Any, frame: Any) -> Any:
    """Return whether libjpeg takes three components for YCbCr: by JFIF, Adobe's segment, or ids."""
    end = uint32_at(grid, JFIF_AT)
    if end > 2:
        named = data[6] == 0x4A and data[7] == 0x46 and data[8] == 0x49 and data[9] == 0x46
        return end >= 20 and _segment(data, 2, end, 0xE0) == end and named and data[10] == 0
    if adobe >= 0:
        return adobe == 1
    return data[frame + 10] == 1 and data[frame + 13] == 2 and data[frame + 16] == 3


@kernel
def _huffman(data: Any, place: Any, end: Any, tables: Any) -> Any:
    """Return whether there are these tables, complete, with symbols of baseline files only."""
    for k in range(tables):
        if place + 17 > end or data[place] != _KINDS[k]:
            return False
        symbols, code = np.int64(0), np.int64(0)
        for length in range(1, 17):
            count = np.int64(data[place + length])
            code += count
            if code >= 1 << length:
                return False
            code <<= 1
            symbols += count
        place += 17
        if symbols > 256 or place + symbols > end:
            return False
        for i in range(place, place + symbols):
            symbol = np.int64(data[i])
            if (symbol & 15) > _LARGEST_AC if k % 2 else symbol > _LARGEST_DC:
                return False
        place += symbols
    return place == end


@kernel
def _scan(data: Any, place: Any, stop: Any, frame: Any, count: Any) -> Any:
    """Return whether the scan has all components, as the packer orders them, and is the last."""
    if _segment(data, place, stop, 0xDA) != stop or stop - place != 8 + 2 * count:
        return False
    if data[place + 4] != count:
        return False
    for i in range(count):
        at = place + 5 + 2 * i
        if data[at] != data[frame + 10 + 3 * i] or data[at + 1] != 0x11 * min(i, 1):
            return False
    return data[stop - 3] == 0 and data[stop - 2] == 63 and data[stop - 1] == 0
