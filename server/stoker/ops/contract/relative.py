"""One decision for values of different sizes: how `relative=True` changes a record.

A decision is drawn for the first value of a call. For a value of another size its record is scaled
in proportion to the sides by the op's `Op.rescale`, which is one of these rules or built from them.
Integers only, so compiled and plain forms give the same bits. Sizes are in pixels.
"""

from typing import Any

import numpy as np

from stoker.jit import kernel


@kernel
def keep_record(params: Any, record: Any, sizes: Any) -> bool:
    """`Op.rescale` of an op whose record means the same at every size."""
    return True


@kernel
def carried(at: Any, before: int, after: int) -> Any:
    """Return the pixel edge nearest to the same fraction of another side; ties go up.

    Args:
        at: an edge, or a distance; may be negative.
        before: the side that contains it.
        after: the other side.
    """
    return (2 * at * after + before) // (2 * before)


@kernel
def one_ratio(sizes: Any) -> bool:
    """Whether one factor scales one size to the other, each side rounded down or up to a pixel."""
    height, width, tall, wide = sizes
    return bool(abs(tall * width - wide * height) < height + width)


@kernel
def require_ratio(params: Any, record: Any, sizes: Any) -> bool:
    """`Op.rescale` of an op whose record means the same at every size with one ratio of sides."""
    return one_ratio(sizes)


@kernel
def span(first: Any, count: Any, before: int, after: int) -> Any:
    """Scale the first pixel and the number of pixels of a part of a side; at least one."""
    start = min(carried(first, before, after), after - 1)
    return start, max(carried(first + count, before, after) - start, 1)


@kernel
def rescale_box(params: Any, record: Any, sizes: Any) -> bool:
    """`Op.rescale` of a box in top, left, height and width: each edge goes to the nearest one.

    The result is at least one pixel high and wide, and inside the value if the box was.
    """
    height, width, tall, wide = sizes
    top, rows = span(np.int64(record["top"]), np.int64(record["height"]), height, tall)
    left, columns = span(np.int64(record["left"]), np.int64(record["width"]), width, wide)
    record["top"], record["height"] = top, rows
    record["left"], record["width"] = left, columns
    return True
