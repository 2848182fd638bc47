"""The box of an image that an op reads; a decoder may skip the rest. See `Op.reads`."""

from typing import Any

from stoker.jit import kernel


@kernel
def box_inside(top: int, left: int, box: Any, height: int, width: int) -> Any:
    """Return the part of a box inside an image: (top, left, height, width), never empty.

    Args:
        top: of the box, in pixels of the image; may be negative.
        left: the same across.
        box: (height, width) of the box.
        height: of the image.
        width: of the image.
    """
    y0, x0 = min(max(top, 0), height - 1), min(max(left, 0), width - 1)
    y1, x1 = min(top + box[0], height), min(left + box[1], width)
    return y0, x0, max(y1 - y0, 1), max(x1 - x0, 1)
