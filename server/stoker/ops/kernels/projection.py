"""The projective map that takes four output pixels to the corners of the source.

The map from the unit square to the corners is Heckbert's (Fundamentals of Texture Mapping and Image
Warping, 1989, section 2.2.3), inverted by its adjugate. float64 gives the position of a pixel;
rounded to the fixed point of `kernels.warp` it is sampled there, by `kernels.projected`.
"""

from typing import Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.points import inverse
from stoker.ops.kernels.warp import UNIT


@kernel
def projection(corners: Any, height: int, width: int) -> Any:
    """Return the nine numbers of the map from output to source.

    Output (y, x) has the position (X, Y) / Z in pixels of the source, with X = n0 x + (n1 y + n2),
    Y = n3 x + (n4 y + n5), Z = n6 x + (n7 y + n8), computed as (X, Y) times 1 / Z: divisions take
    most of the time.

    Args:
        corners: x and y of the output pixels that show the top left, top right, bottom right and
            bottom left pixel of the source.
        height: rows of the source.
        width: columns of the source.
    """
    x0, y0, x1, y1 = float(corners[0]), float(corners[1]), float(corners[2]), float(corners[3])
    x2, y2, x3, y3 = float(corners[4]), float(corners[5]), float(corners[6]), float(corners[7])
    dx1, dy1, dx2, dy2 = x1 - x2, y1 - y2, x3 - x2, y3 - y2
    sx, sy = x0 - x1 + x2 - x3, y0 - y1 + y2 - y3
    det = dx1 * dy2 - dx2 * dy1
    if det == 0.0:  # not from a decision of Stoker's: nothing is inside
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    g, h = (sx * dy2 - dx2 * sy) / det, (dx1 * sy - sx * dy1) / det
    a, b = x1 - x0 + g * x1, x3 - x0 + h * x3
    d, e = y1 - y0 + g * y1, y3 - y0 + h * y3
    z0, z1, z2 = d * h - e * g, b * g - a * h, a * e - b * d
    wide, tall = width - 1.0, height - 1.0
    return (
        (e - y0 * h) * wide + 0.5 * z0,
        (x0 * h - b) * wide + 0.5 * z1,
        (b * y0 - x0 * e) * wide + 0.5 * z2,
        (y0 * g - d) * tall + 0.5 * z0,
        (a - x0 * g) * tall + 0.5 * z1,
        (x0 * d - a * y0) * tall + 0.5 * z2,
        z0,
        z1,
        z2,
    )


@kernel
def forward_projection(corners: Any, height: int, width: int) -> Any:
    """Return the map of source points, in the form of `stoker.ops.kernels.points`."""
    a, b, c, d, e, f, g, h, i = projection(corners, height, width)
    # For points; `projection` is for pixels: the center of pixel 0 is the point 0.5.
    c, f, i = c - 0.5 * (a + b), f - 0.5 * (d + e), i - 0.5 * (g + h)
    return inverse((a, b, c, d, e, f, g, h, i))


def plain_projection(corners: Any, height: int, width: int) -> Any:
    """Return positions and whether they are inside, as `warp.plain_sample` takes them."""
    n = projection([int(v) for v in corners], height, width)
    y, x = np.mgrid[:height, :width].astype(np.float64)
    z = n[6] * x + (n[7] * y + n[8])
    seen = z > 0.0
    part = 1.0 / np.where(seen, z, 1.0)
    fx, fy = (n[0] * x + (n[1] * y + n[2])) * part, (n[3] * x + (n[4] * y + n[5])) * part
    seen &= (fx >= 0.0) & (fx < width) & (fy >= 0.0) & (fy < height)
    fx, fy = np.where(seen, fx, 0.0), np.where(seen, fy, 0.0)
    down = [np.floor(f * UNIT + 0.5).astype(np.int64) for f in (fx, fy)]
    return *down, seen
