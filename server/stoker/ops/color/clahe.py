"""Equalize each part of an image separately, with limited contrast: OpenCV's CLAHE.

Draws: 0 applied if uniform < p; 1 the limit, uniform in its range. The image is divided into tiles
of one size; beyond its edges it is mirrored at its outermost pixel. A tile's histogram is clipped
at the limit, the excess is spread evenly, and levels move to their ranks among the tile's levels. A
pixel's level is interpolated from the four tiles whose centers surround it, with weights of 11
bits. For colors, luma is equalized and blue and red difference do not change: a pixel's three
levels move by the same amount.

With n pixels in a tile, a limit l counts as max(floor(l n / 256), 1). Zuiderveld, "Contrast limited
adaptive histogram equalization" (Graphics Gems IV, 1994).
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, LEVELS, PixelOp, begin
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Range, SidePair, Sides, Span, both_sides
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import GRAY_OR_RGB
from stoker.ops.contract.states import State
from stoker.ops.kernels.color import HIGH, K1, K2, K3, LOW, luma, plain_luma, write_luma
from stoker.ops.kernels.extend import place, plain_place
from stoker.ops.kernels.resample import padded
from stoker.rng.draws import bernoulli, uniform_range
from stoker.rng.maths import floor

MOST_TILES: Final = 64
MOST: Final = 256.0
TILES: Final = SidePair(1, MOST_TILES, "rows, columns")
LIMIT: Final = "greatest count of a level in a tile, relative to equal counts of all levels"
WEIGHT: Final = 2048
SHIFT: Final = 22
COUNTS: Final = 8 * LEVELS


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["limit"] = uniform_range(key, 1, params["limit_low"], params["limit_high"])


@kernel
def count_tile(gray: Any, size: Any, corner: Any, tile: Any, counts: Any) -> None:
    """Write the histogram of a tile.

    Args:
        gray: flat levels.
        size: (height, width) of the image.
        corner: (top, left) of the tile.
        tile: (height, width) of the tile.
        counts: `(256,) int64`.
    """
    height, width = size
    for level in range(LEVELS):
        counts[level] = 0
    for y in range(corner[0], corner[0] + tile[0]):
        row = place(y, height, 1) * width
        inner = max(min(corner[1] + tile[1], width), corner[1])
        for x in range(corner[1], inner):
            counts[np.uint64(gray[np.uint64(row + x)])] += 1
        for x in range(inner, corner[1] + tile[1]):
            counts[np.uint64(gray[np.uint64(row + place(x, width, 1))])] += 1


@kernel
def limit_counts(counts: Any, most: int) -> None:
    """Clip a histogram at `most`, and spread the excess: evenly, then one by one in steps."""
    cut = 0
    for level in range(LEVELS):
        if counts[level] > most:
            cut += counts[level] - most
            counts[level] = most
    share, rest = cut // LEVELS, cut % LEVELS
    step = LEVELS // max(rest, 1)
    for level in range(LEVELS):
        counts[level] += share
        if level % step == 0 and level // step < rest:
            counts[level] += 1


@kernel
def fill_ranks(counts: Any, pixels: int, table: Any, at: int) -> None:
    """Write the new level of each of the 256 levels to `table[at:]`."""
    total = 0
    for level in range(LEVELS):
        total += counts[level]
        table[at + level] = (2 * 255 * total + pixels) // (2 * pixels)


@kernel
def fill_mix(side: int, tile: int, tiles: int, step: int, mix: Any) -> None:
    """Write for each pixel of an axis (first tile, next tile, weight of the next): `(3, side)`.

    Tiles are counted in units of `step`.
    """
    for x in range(side):
        at = 2 * x - tile
        first = at // (2 * tile)
        mix[0, x] = max(first, 0) * step
        mix[1, x] = min(first + 1, tiles - 1) * step
        mix[2, x] = (2 * WEIGHT * (at % (2 * tile)) + 2 * tile) // (4 * tile)


@kernel
def mix_row(gray: Any, at: Any, tables: Any, upper: Any, lower: Any, part: Any, mix: Any) -> None:
    """Replace a row of levels; the tables of its two rows of tiles start at `upper` and `lower`."""
    for x in range(np.uint64(mix.shape[1])):
        level = np.int64(gray[at + x])
        left, right, fx = mix[0, x] + level, mix[1, x] + level, mix[2, x]
        a = np.int64(tables[upper + left]) * (WEIGHT - fx) + np.int64(tables[upper + right]) * fx
        b = np.int64(tables[lower + left]) * (WEIGHT - fx) + np.int64(tables[lower + right]) * fx
        gray[at + x] = (a * (WEIGHT - part) + b * part + (1 << (SHIFT - 1))) >> SHIFT


@kernel
def move_luma(image: Any, gray: Any) -> None:
    """Move the three levels of each pixel by the same amount, to give the new luma."""
    for i in range(np.uint64(gray.size)):
        k = K3 * i
        more = np.int32(np.int32(gray[i]) - luma(image[k], image[k + K1], image[k + K2]))
        for c in range(np.uint64(3)):
            level = np.int32(np.int32(image[k + c]) + more)
            image[k + c] = np.uint8(min(max(level, LOW), HIGH))


@kernel
def most_of(limit: float, pixels: int) -> int:
    """Return the maximum number of pixels of one level in a tile."""
    return max(floor(limit * pixels / 256.0), 1)


@kernel
def _equalize(gray: Any, size: Any, tiles: Any, limit: float, scratch: Any) -> None:
    """Equalize flat levels in place."""
    height, width = size
    rows, columns = tiles
    tall, wide = (height + rows - 1) // rows, (width + columns - 1) // columns
    counts = scratch[:COUNTS].view(np.int64)
    at = COUNTS + 24 * width
    across = scratch[COUNTS:at].view(np.int64).reshape((3, width))
    down = scratch[at : at + 24 * height].view(np.int64).reshape((3, height))
    tables = scratch[at + 24 * height :]
    for row in range(rows):
        for column in range(columns):
            count_tile(gray, size, (row * tall, column * wide), (tall, wide), counts)
            limit_counts(counts, most_of(limit, tall * wide))
            fill_ranks(counts, tall * wide, tables, (row * columns + column) * LEVELS)
    fill_mix(width, wide, columns, LEVELS, across)
    fill_mix(height, tall, rows, columns * LEVELS, down)
    for y in range(height):
        mix_row(gray, np.uint64(y * width), tables, down[0, y], down[1, y], down[2, y], across)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    height, width, channels = src.shape
    image = begin(src, dst)
    if record["apply"]:
        tiles = (int(params["tiles_y"]), int(params["tiles_x"]))
        limit, size = float(record["limit"]), (height, width)
        if channels == 1:
            _equalize(image, size, tiles, limit, scratch)
        else:
            end = padded(height * width)
            gray = scratch[: height * width]
            write_luma(image, gray)
            _equalize(gray, size, tiles, limit, scratch[end:])
            move_luma(image, gray)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        wide = src.astype(np.int64)
        gray = plain_luma(wide)[..., 0]
        tiles = (int(params["tiles_y"]), int(params["tiles_x"]))
        moved = plain_equalize(gray, tiles, float(record["limit"])) - gray
        dst[...] = np.clip(wide + moved[..., None], 0, 255)


def plain_equalize(gray: np.ndarray, tiles: tuple[int, int], limit: float) -> np.ndarray:
    """Return levels `(H, W) int64` equalized, with NumPy."""
    sides = [-(-side // count) for side, count in zip(gray.shape, tiles, strict=True)]
    pixels = sides[0] * sides[1]
    places = [
        plain_place(np.arange(tile * count), side, 1)
        for tile, count, side in zip(sides, tiles, gray.shape, strict=True)
    ]
    whole = gray[places[0][:, None], places[1]].reshape(tiles[0], sides[0], tiles[1], sides[1])
    parts = whole.swapaxes(1, 2).reshape(tiles[0] * tiles[1], pixels)
    counts = np.stack([np.bincount(part, minlength=LEVELS) for part in parts])
    most = most_of(limit, pixels)
    cut = np.maximum(counts - most, 0).sum(1, keepdims=True)
    rest = cut % LEVELS
    steps, levels = LEVELS // np.maximum(rest, 1), np.arange(LEVELS)
    more = (levels % steps == 0) & (levels // steps < rest)
    counts = np.minimum(counts, most) + cut // LEVELS + more
    ranks = (510 * np.cumsum(counts, 1) + pixels) // (2 * pixels)
    ranks = ranks.reshape(*tiles, LEVELS)
    first, following, weights = [], [], []
    for tile, count, side in zip(sides, tiles, gray.shape, strict=True):
        tile_number, part = np.divmod(2 * np.arange(side) - tile, 2 * tile)
        first.append(np.maximum(tile_number, 0))
        following.append(np.minimum(tile_number + 1, count - 1))
        weights.append((2 * WEIGHT * part + 2 * tile) // (4 * tile))
    fy, fx = weights[0][:, None], weights[1]
    rows = [
        ranks[row[:, None], first[1], gray] * (WEIGHT - fx)
        + ranks[row[:, None], following[1], gray] * fx
        for row in (first[0], following[0])
    ]
    mixed: np.ndarray = (rows[0] * (WEIGHT - fy) + rows[1] * fy + (1 << (SHIFT - 1))) >> SHIFT
    return mixed


@register
class Clahe(PixelOp):
    """Equalize each part of an image separately, with limited contrast."""

    limit_range: Annotated[Range, Span(0.0, MOST), LIMIT] = (1.0, 4.0)
    tiles: Annotated[Sides, TILES, "tiles along each side"] = 8
    p: Probability = 0.5

    image_channels = GRAY_OR_RGB
    of_levels = True
    clips_floats = True
    examples = ({"p": 0.9}, {"limit_range": (0, 40), "tiles": (3, 5), "p": 0.5})
    picture = {"limit_range": (4, 4)}
    record = np.dtype([("limit", "f8"), APPLY])
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    draw = staticmethod(_draw)

    def scratch(self, state: State) -> int:
        """Return the bytes of luma, a histogram, the mix of each axis, and a table for a tile."""
        height, width, _ = state.bound
        rows, columns = both_sides(self.tiles)
        return padded(height * width) + COUNTS + 24 * (width + height) + LEVELS * rows * columns


clahe = function(Clahe)
