"""Boxes and keypoints under a projective map: how every op that moves pixels moves them.

An op gives the map of points from its input to its output once (`Op.forward`), as nine numbers of a
projective map in pixels of the image, where pixel i covers [i, i + 1). This module does the rest: a
box becomes the smallest upright box around its four mapped corners; it is clipped to the new image,
and removed if nothing of it remains; a keypoint is removed if it leaves the image. All other words
of an item are copied, so they stay with its coordinates; the field `visible_part` of a box
(`track_visible`) is multiplied by the fraction of the moved box that remains. A keypoint with that
field is kept outside of the image, where the field becomes 0.

Coordinates are read as float32, computed in float64, each operation rounded once, in the order
written, and rounded to float32 once at the end. (They are widened with `np.float64`: numba's
`float` does not change a float32.)
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel


@kernel
def scaled(x: float, y: float, right: float, down: float) -> Any:
    """Return the map that scales by (x, y), then shifts by (right, down)."""
    return float(x), 0.0, float(right), 0.0, float(y), float(down), 0.0, 0.0, 1.0


@kernel
def stay(params: Any, record: Any, sizes: Any) -> Any:
    """The map of an op that moves no pixels: the identity."""
    return scaled(1.0, 1.0, 0.0, 0.0)


@kernel
def fill_frame(params: Any, record: Any, sizes: Any) -> Any:
    """The map of an op that resizes the whole image."""
    height, width, tall, wide = sizes
    return scaled(wide / width, tall / height, 0.0, 0.0)


@kernel
def turned(turns: int, height: int, width: int) -> Any:
    """Return the map of quarter turns, counter-clockwise, of an image of that size."""
    tall, wide = float(height), float(width)
    if turns == 1:
        return 0.0, 1.0, 0.0, -1.0, 0.0, wide, 0.0, 0.0, 1.0
    if turns == 2:
        return scaled(-1.0, -1.0, wide, tall)
    if turns == 3:
        return 0.0, -1.0, tall, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0
    return scaled(1.0, 1.0, 0.0, 0.0)


@kernel
def inverse(numbers: Any) -> Any:
    """Return the inverse of a map; points mapped to infinity get a third number of 0.

    The third number of the inverse's result is positive where that of the map is.
    """
    a, b, c, d, e, f, g, h, i = numbers
    p, q, r = e * i - f * h, f * g - d * i, d * h - e * g
    det = a * p + b * q + c * r
    s = 1.0 if det > 0.0 else -1.0
    if det == 0.0:
        s = 0.0
    return (
        s * p,
        s * (c * h - b * i),
        s * (b * f - c * e),
        s * q,
        s * (a * i - c * g),
        s * (c * d - a * f),
        s * r,
        s * (b * g - a * h),
        s * (a * e - b * d),
    )


@kernel
def place(numbers: Any, x: float, y: float) -> Any:
    """Return (x, y, whether the result is finite) of a point under a map."""
    a, b, c, d, e, f, g, h, i = numbers
    z = g * x + h * y + i
    if z > 0.0:
        return (a * x + b * y + c) / z, (d * x + e * y + f) / z, True
    return 0.0, 0.0, False


@kernel
def lower(x: float, y: float) -> float:
    """Return the smaller number; x if they are equal, so that a zero keeps its sign."""
    return y if y < x else x


@kernel
def upper(x: float, y: float) -> float:
    """Return the greater number; x if they are equal."""
    return y if y > x else x


@kernel
def beyond(low: float, high: float, side: float) -> bool:
    """Whether [low, high] is outside of an image's side; a single point may be on its edge."""
    return high < 0.0 or low > side or (low < high and (high <= 0.0 or low >= side))


@kernel
def move_boxes(src: Any, dst: Any, numbers: Any, sizes: Any, visible: int) -> int:
    """Move boxes, clip them and remove those with nothing left.

    Args:
        src: (n, words) uint32, boxes in an image of `sizes[:2]`.
        dst: (at least n, words) uint32; its first items are written.
        numbers: the map from old to new places.
        sizes: height and width of the image before and after.
        visible: the word of the field `visible_part`, or 0 if there is none.

    Returns:
        The number of items written, in their original order.
    """
    tall, wide = float(sizes[2]), float(sizes[3])
    at, to = src.view(np.float32), dst.view(np.float32)
    kept = 0
    for n in range(src.shape[0]):
        left, top = np.float64(at[n, 0]), np.float64(at[n, 1])
        right, bottom = np.float64(at[n, 2]), np.float64(at[n, 3])
        x0, y0, seen = place(numbers, left, top)
        x1, y1 = x0, y0
        for corner in range(1, 4):
            x = right if corner in (1, 2) else left
            x, y, there = place(numbers, x, bottom if corner >= 2 else top)
            x0, x1 = lower(x0, x), upper(x1, x)
            y0, y1 = lower(y0, y), upper(y1, y)
            seen = seen and there
        if not seen or beyond(x0, x1, wide) or beyond(y0, y1, tall):
            continue
        u0, v0, u1, v1 = upper(0.0, x0), upper(0.0, y0), lower(wide, x1), lower(tall, y1)
        for word in range(4, src.shape[1]):
            dst[kept, word] = src[n, word]
        to[kept, 0], to[kept, 1], to[kept, 2], to[kept, 3] = u0, v0, u1, v1
        whole = (x1 - x0) * (y1 - y0)
        if visible > 0 and whole > 0.0:
            part = (u1 - u0) * (v1 - v0) / whole
            to[kept, visible] = np.float64(at[n, visible]) * part
        kept += 1
    return kept


@kernel
def move_keypoints(src: Any, dst: Any, numbers: Any, sizes: Any, visible: int) -> int:
    """Move keypoints and remove those outside of the image; see `move_boxes`.

    Keypoints with the field `visible_part` are all kept: those outside get 0 there.
    """
    tall, wide = float(sizes[2]), float(sizes[3])
    at, to = src.view(np.float32), dst.view(np.float32)
    kept = 0
    for n in range(src.shape[0]):
        x, y, seen = place(numbers, np.float64(at[n, 0]), np.float64(at[n, 1]))
        outside = not seen or beyond(x, x, wide) or beyond(y, y, tall)
        if outside and visible == 0:
            continue
        to[kept, 0], to[kept, 1] = x, y
        for word in range(2, src.shape[1]):
            dst[kept, word] = src[n, word]
        if outside:
            to[kept, visible] = 0.0
        kept += 1
    return kept


MOVERS: Final = {"boxes": move_boxes, "keypoints": move_keypoints}
"""Kind -> kernel that moves its items by the map of an op."""
