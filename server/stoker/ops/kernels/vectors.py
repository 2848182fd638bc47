"""Components of vector fields under the linear part of a map; see `contract.vector_fields`.

Each component is computed in float64, every operation rounded once, in the order written, and
rounded to float32 once at the end. A factor of 0 ignores its component, so infinity in one does not
reach the other. NaN is written as 0x7FC00000.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.float_levels import number
from stoker.rng.maths import sqrt

ZERO: Final = 0.0


@kernel
def component(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return a x + b y as float32."""
    u, v = np.float64(x), np.float64(y)
    if b == ZERO:
        return number(np.float32(a * u))
    if a == ZERO:
        return number(np.float32(b * v))
    return number(np.float32(a * u + b * v))


@kernel
def linear(numbers: Any) -> Any:
    """Return the linear part of an affine map: (a, b, d, e) of x' = a x + b y, y' = d x + e y.

    The last of the nine numbers of a map divides the others.
    """
    a, b, _, d, e, _, _, _, i = numbers
    return a / i, b / i, d / i, e / i


@kernel
def turning(numbers: Any) -> Any:
    """Return the rotation or reflection nearest to the linear part of an affine map.

    It is the orthogonal factor of its polar decomposition, which has no scale; zeros if the map
    takes the plane to a line.
    """
    a, b, d, e = linear(numbers)
    det = a * e - b * d
    sign = 1.0 if det > ZERO else -1.0
    p, q = a + sign * e, b - sign * d
    length = sqrt(p * p + q * q)
    if not (det != ZERO and length > ZERO):
        return ZERO, ZERO, ZERO, ZERO
    return p / length, q / length, -sign * q / length, sign * p / length


@kernel
def turn_pixels(src: Any, dst: Any, matrix: Any) -> None:
    """Apply a matrix (a, b, d, e) to the first two components of each pixel; copy the others."""
    a, b, d, e = matrix
    for y in range(src.shape[0]):
        for x in range(src.shape[1]):
            u, v = src[y, x, 0], src[y, x, 1]
            dst[y, x, 0], dst[y, x, 1] = component(a, b, u, v), component(d, e, u, v)
            for n in range(2, src.shape[2]):
                dst[y, x, n] = src[y, x, n]


@kernel
def turn_flow(src: Any, dst: Any, numbers: Any) -> None:
    """Turn and scale a flow, (H, W, 2) float32, by the map of an op."""
    turn_pixels(src, dst, linear(numbers))


@kernel
def turn_normals(src: Any, dst: Any, numbers: Any) -> None:
    """Turn normals, (H, W, 3) float32, by the map of an op; they keep their length."""
    turn_pixels(src, dst, turning(numbers))


def _plain_component(a: float, b: float, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        if b == 0:
            total = a * u
        elif a == 0:
            total = b * v
        else:
            total = a * u + b * v
        made = total.astype(np.float32)
    made[np.isnan(made)] = np.float32(np.nan)
    return made


def _plain(src: np.ndarray, dst: np.ndarray, matrix: Any) -> None:
    a, b, d, e = (float(number) for number in matrix)
    u, v = src[..., 0].astype(np.float64), src[..., 1].astype(np.float64)
    dst[...] = src
    dst[..., 0], dst[..., 1] = _plain_component(a, b, u, v), _plain_component(d, e, u, v)


def _plain_flow(src: np.ndarray, dst: np.ndarray, numbers: Any) -> None:
    _plain(src, dst, linear(numbers))


def _plain_normals(src: np.ndarray, dst: np.ndarray, numbers: Any) -> None:
    _plain(src, dst, turning(numbers))


@dataclass(frozen=True)
class Turner:
    """How the components of a kind follow a map.

    Attributes:
        run: compiled form, `run(src, dst, numbers)`, with the nine numbers of `Op.forward`.
        plain: NumPy reference of the same signature. Same bits.
    """

    run: Callable[[Any, Any, Any], None]
    plain: Callable[[Any, Any, Any], None]


TURNERS: Final = {
    "flow": Turner(turn_flow, _plain_flow),
    "normals": Turner(turn_normals, _plain_normals),
}
"""Kind -> the rule of its components."""
