"""Rotate about the center by a random angle and fit the result into the old size: SafeRotate.

Draw 0 is the angle in degrees, uniform, counter-clockwise, as Albumentations' SafeRotate. The
rotated image is W |cos| + H |sin| wide and W |sin| + H |cos| high; each side is scaled to the
image's own, so nothing leaves the image and the size is kept, but the ratio changes unless the
image is square. Pixels from outside are filled.

Difference: Albumentations rounds the rotated sides down to whole pixels first, so that up to a
pixel is lost.
"""

from typing import Any

from stoker.jit import kernel
from stoker.ops.bases.rotated import Rotated
from stoker.ops.bases.warped import affine_kernels
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.kernels.affinity import RADIANS
from stoker.ops.kernels.points import inverse
from stoker.ops.kernels.warp import fixed
from stoker.rng.maths import cos, sin


@kernel
def fitted(record: Any, height: int, width: int) -> Any:
    """Return (a, b, c, d, e, f): the result's point (x, y) is (ax + by + c, dx + ey + f) before."""
    turn = float(record["angle"]) * RADIANS
    along, across = cos(turn), sin(turn)
    u, v = abs(along), abs(across)
    grow_x, grow_y = (width * u + height * v) / width, (width * v + height * u) / height
    a, b = along * grow_x, -across * grow_y
    d, e = across * grow_x, along * grow_y
    middle_x, middle_y = width * 0.5, height * 0.5
    return (
        a,
        b,
        middle_x - a * middle_x - b * middle_y,
        d,
        e,
        middle_y - d * middle_x - e * middle_y,
    )


@kernel
def steps_of(record: Any, height: int, width: int) -> Any:
    """Return the steps (ax, bx, cx, ay, by, cy) that `warp_affine` takes, from pixel centers."""
    a, b, c, d, e, f = fitted(record, height, width)
    c, f = c + 0.5 * (a + b), f + 0.5 * (d + e)
    return fixed(a), fixed(b), fixed(c), fixed(d), fixed(e), fixed(f)


@kernel
def _steps(record: Any, before: Any, after: Any) -> Any:
    return steps_of(record, before[0], before[1])


@kernel
def _forward(params: Any, record: Any, sizes: Any) -> Any:
    a, b, c, d, e, f = fitted(record, sizes[0], sizes[1])
    return inverse((a, b, c, d, e, f, 0.0, 0.0, 1.0))


@register
class SafeRotate(Rotated):
    """Rotate about the center and fit the result into the old size: all content is kept."""

    examples = (
        {"degrees": 180, "fill": 114},
        {"degrees": (20, 70), "interpolation": "nearest", "fill": 9, "mask_fill": 7},
    )
    picture = {"degrees": (20, 20)}
    varied = {"degrees": (20, (90, 90))}
    kernels = affine_kernels(_steps)
    forward = staticmethod(_forward)

    def vector_fault(self, kind: str) -> str | None:
        """Return why the op cannot treat normals: its map stretches them."""
        if kind == "normals":
            return "it stretches what it rotates. Call rotate with expand=True, then resize"
        return super().vector_fault(kind)


safe_rotate = function(SafeRotate)
