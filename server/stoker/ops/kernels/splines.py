"""A smooth random displacement of every pixel: a cubic B-spline over a grid of random points.

Points of the grid are `spacing` pixels apart and reach one beyond the image on every side. Point
(row, column) moves by amount * (2u - 1) to the right and downwards, u being the uniforms of words 0
and 1 of block 65536 row + column of `kernels.random_bytes`: the block depends on the point's
number, not on the image's size. Four by four points move a pixel, by the weights of the uniform
cubic B-spline at the pixel's position between them, in units of 2**-15; moves are in units of
2**-24 pixels. Sums are rounded, halves up, columns first.

Weights are not negative and sum to one, so no pixel moves by more than the amount; and below 0.48
spacings nothing folds (Choi and Lee, "Injectivity conditions of 2D and 3D uniform cubic B-spline
functions", 2000).
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.kernels.random_bytes import plain_blocks
from stoker.ops.kernels.resample import padded
from stoker.ops.kernels.warp import BITS, UNIT, fixed
from stoker.rng.philox import philox4x64

WEIGHT_BITS: Final = 15
HALF: Final = 1 << (WEIGHT_BITS - 1)
MIDDLE: Final = 1 << (BITS - 1)
"""Half a pixel: the position of pixel 0."""
COLUMNS: Final = 65536
"""Maximum number of points in a row of the grid."""
TOP: Final = np.uint64(11)
TO_UNIT: Final = 2.0**-53
ZERO: Final = np.uint64(0)


@kernel
def points_on(side: int, spacing: int) -> int:
    """Return the number of grid points along a side of that many pixels."""
    return (side - 1) // spacing + 4


@kernel
def spline_bytes(height: int, width: int, spacing: int) -> int:
    """Return the scratch bytes of `fill_points`, `fill_weights`, and a row of moves."""
    across = points_on(width, spacing)
    grid = 16 * points_on(height, spacing) * across
    return padded(grid) + padded(32 * spacing) + padded(16 * across)


@kernel
def fill_points(points: Any, columns: int, seed: Any, amount: float) -> None:
    """Write the moves of all points: `(rows * columns * 2,) int64`, to the right, then down."""
    key = (seed[0], seed[1])
    for n in range(len(points) // 2):
        block = np.uint64(n // columns * COLUMNS + n % columns)
        counter: Any = (block, ZERO, ZERO, ZERO)
        a, b, _, _ = philox4x64(counter, key)
        points[2 * n] = move(a, amount)
        points[2 * n + 1] = move(b, amount)


@kernel
def move(word: Any, amount: float) -> int:
    """Return the move for a random word, up to `amount` pixels."""
    return fixed(amount * (2.0 * (np.uint64(word) >> TOP) * TO_UNIT - 1.0))


@kernel
def fill_weights(weights: Any, spacing: int) -> None:
    """Write the weights of the pixels between two points: `(4 * spacing,)`, point by point."""
    whole = spacing * spacing * spacing
    for u in range(spacing):
        v = spacing - u
        first, last = weight(v * v * v, whole), weight(u * u * u, whole)
        third = weight(whole + 3 * (u * spacing * (spacing + u) - u * u * u), whole)
        weights[u] = first
        weights[spacing + u] = (1 << WEIGHT_BITS) - first - third - last
        weights[2 * spacing + u] = third
        weights[3 * spacing + u] = last


@kernel
def weight(part: int, whole: int) -> int:
    """Return part / (6 whole) in units of 2**-15, rounded, halves up."""
    return ((part << (WEIGHT_BITS + 1)) + 6 * whole) // (12 * whole)


@kernel
def blend_points(points: Any, columns: int, y: int, spacing: int, weights: Any, line: Any) -> None:
    """Write the moves of a row of points, interpolated at pixel row y: `(columns * 2,) int64`."""
    row, at = y // spacing * 2 * columns, y % spacing
    step = 2 * columns
    for i in range(step):
        total = HALF
        for k in range(4):
            total += weights[at + k * spacing] * points[row + k * step + i]
        line[i] = total >> WEIGHT_BITS


@kernel
def displace_row(line: Any, y: int, spacing: int, weights: Any, size: Any, places: Any) -> None:
    """Write the positions of a row of pixels, from the points' moves at that row.

    `size` is (height, width); `places` (across, down), as `kernels.sampling_points` takes them.
    """
    height, width = size
    across, down = places
    for start in range(0, width, spacing):
        count = min(spacing, width - start)
        moves = line[start // spacing * 2 : start // spacing * 2 + 8]
        blend_cell(moves[0::2], weights, across[start : start + count])
        blend_cell(moves[1::2], weights, down[start : start + count])
    for x in range(np.uint64(width)):
        px, py = across[x] + (np.int64(x) << BITS) + MIDDLE, down[x] + (y << BITS) + MIDDLE
        inside = 0 <= px < width << BITS and 0 <= py < height << BITS
        across[x], down[x] = px if inside else -1, py


@kernel
def blend_cell(moves: Any, weights: Any, out: Any) -> None:
    """Write the moves of the pixels between two points, from four points' moves."""
    a, b, c, d = moves[0], moves[1], moves[2], moves[3]
    spacing = np.uint64(weights.size // 4)
    second, third = spacing + spacing, spacing + spacing + spacing
    for u in range(np.uint64(out.size)):
        total = weights[u] * a + weights[spacing + u] * b
        total += weights[second + u] * c + weights[third + u] * d
        out[u] = (total + HALF) >> WEIGHT_BITS


def plain_displacement(
    size: tuple[int, int], spacing: int, seed: tuple[int, int], amount: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of all pixels, `(h, w) int64` across and down, with NumPy."""
    rows, columns = points_on(size[0], spacing), points_on(size[1], spacing)
    numbers = (np.arange(rows)[:, None] * COLUMNS + np.arange(columns)).astype(np.uint64)
    words = plain_blocks(numbers.ravel(), seed).view("<u8").reshape(rows, columns, 4)[..., :2]
    moves = amount * (2.0 * (words >> TOP) * TO_UNIT - 1.0)
    grid = np.floor(moves * UNIT + 0.5).astype(np.int64)
    for axis, side in enumerate(size):
        grid = plain_blend(grid, axis, side, spacing)
    y, x = np.mgrid[: size[0], : size[1]].astype(np.int64)
    return (x << BITS) + MIDDLE + grid[..., 0], (y << BITS) + MIDDLE + grid[..., 1]


def plain_blend(grid: np.ndarray, axis: int, side: int, spacing: int) -> np.ndarray:
    """Return a grid of points blended along one axis to `side` pixels."""
    weights = np.zeros(4 * spacing, np.int64)
    fill_weights(weights, spacing)
    places = np.arange(side)
    shape = [1] * grid.ndim
    shape[axis] = side
    total = np.full((), HALF, np.int64)
    for k in range(4):
        share = weights.reshape(4, spacing)[k, places % spacing].reshape(shape)
        total = total + share * np.take(grid, places // spacing + k, axis)
    blended: np.ndarray = total >> WEIGHT_BITS
    return blended
