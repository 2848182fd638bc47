"""Rotation, translation, scaling and shear: the inverse matrix, and its effect on pixels.

The matrix is torchvision's (`_get_inverse_affine_matrix`) about the image's center: it maps an
output position to a source position. Its angle is clockwise. Sine and cosine come from
`stoker.rng.maths`; every float64 operation is rounded once, in the order written.
"""

from typing import Any, Final

from stoker.jit import kernel
from stoker.ops.kernels.points import inverse
from stoker.ops.kernels.warp import fixed
from stoker.rng.maths import cos, sin

RADIANS: Final = float.fromhex("0x1.1df46a2529d39p-6")
"""pi / 180."""


@kernel
def inverse_steps(decision: Any, height: int, width: int) -> Any:
    """Return the steps (ax, bx, cx, ay, by, cy) that `warp_affine` takes; see `backward`."""
    a, b, c, d, e, f = backward(decision, height, width)
    return fixed(a), fixed(b), fixed(c), fixed(d), fixed(e), fixed(f)


@kernel
def forward(decision: Any, height: int, width: int) -> Any:
    """Return the map of points, in the form of `stoker.ops.kernels.points`; see `backward`."""
    a, b, c, d, e, f = backward(decision, height, width)
    c, f = c - 0.5 * (a + b), f - 0.5 * (d + e)  # for points; `backward` is for pixels
    return inverse((a, b, c, d, e, f, 0.0, 0.0, 1.0))


@kernel
def backward(decision: Any, height: int, width: int) -> Any:
    """Return (a, b, c, d, e, f): output pixel (x, y) is (ax + by + c, dx + ey + f) of the source.

    Args:
        decision: (angle, shear_x, shear_y) in degrees, scale, and (translate_x, translate_y) in
            pixels: six numbers in this order.
        height: rows of source and output.
        width: columns of source and output.
    """
    angle, shear_x, shear_y, scale, move_x, move_y = decision
    turn, lean, rise = angle * RADIANS, shear_x * RADIANS, shear_y * RADIANS
    grow = scale if scale > 0.0 else 1.0  # 0 in a record that was never drawn
    slope = sin(lean) / cos(lean)
    along = cos(turn - rise) / cos(rise)
    across = sin(turn - rise) / cos(rise)
    a = (cos(turn) - across * slope) / grow
    b = (along * slope + sin(turn)) / grow
    d = -across / grow
    e = along / grow
    middle_x, middle_y = width * 0.5, height * 0.5
    c = a * (0.5 - middle_x - move_x) + b * (0.5 - middle_y - move_y) + middle_x
    f = d * (0.5 - middle_x - move_x) + e * (0.5 - middle_y - move_y) + middle_y
    return a, b, c, d, e, f
