"""Add Gaussian noise, with probability p: independent for every value, from one counter.

Draws: 0 applied if uniform < p; 1 sigma, uniform in its range; 2 words 0 and 1: a Philox key, the
record's `seed`. Value n of the image, in memory order, takes bytes 2n and 2n + 1 of the blocks
0, 1, ... of that key (counter (b, 0, 0, 0), words little-endian), so each value is independent.

A byte selects one of 256 equally likely points of the normal distribution; the noise is the sum
of two, scaled to the variance sigma**2, in units of 2**-16 level. It is bell-shaped up to its
maximum at 4.08 sigma; its excess kurtosis is above -0.1.

Floats have the same noise over 255: the integer sum of two points, rounded to float32, times
float32(1 / (255 * 2**16)), is added to the value, which is clipped.
"""

from typing import Annotated, Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, LEVELS, PixelOp, begin, plain_floats
from stoker.ops.bases.wide_floats import through_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Range, Span
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.color import level
from stoker.ops.kernels.float_levels import plain_unit, unit
from stoker.ops.kernels.random_bytes import BLOCKS, VALUES, fill_blocks, plain_blocks
from stoker.rng.draws import bernoulli, uniform_range, word
from stoker.rng.maths import floor, sqrt
from stoker.rng.normals import inverse_normal

MOST: Final = 128.0
TABLE: Final = 4 * LEVELS
TWO: Final = np.uint64(2)
ONE: Final = np.uint64(1)
SHIFT: Final = np.int32(16)
PART: Final = np.float32(1 / (255 * 65536))
"""2**-16 level as a float."""


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["sigma"] = uniform_range(key, 1, params["sigma_low"], params["sigma_high"])
    record["seed"][0] = word(key, 2, 0)
    record["seed"][1] = word(key, 2, 1)


@kernel
def fill_points(sigma: float, table: Any) -> None:
    """Write the noise of each byte, in units of 2**-16 level; two bytes have variance sigma**2."""
    total = 0.0
    for i in range(LEVELS):
        point = inverse_normal((i + 0.5) / 256.0)
        total += point * point
    scale = sigma * 65536.0 / sqrt(total / 128.0)
    for i in range(LEVELS):
        table[i] = floor(inverse_normal((i + 0.5) / 256.0) * scale + 0.5)


@kernel
def add_noise(image: Any, start: Any, count: Any, table: Any, noise: Any) -> None:
    """Add the noise of two bytes to each of `count` values of a flat image, from `start` on."""
    for i in range(count):
        at, k = start + i, TWO * i
        both = np.int32(table[np.uint64(noise[k])] + table[np.uint64(noise[k + ONE])])
        image[at] = level(np.int32(np.int32(np.int32(image[at]) << SHIFT) + both))


@kernel
def add_noise_floats(image: Any, start: Any, count: Any, table: Any, noise: Any) -> None:
    """Add the noise to floats, as `add_noise` does for levels."""
    for i in range(count):
        at, k = start + i, TWO * i
        both = np.int32(table[np.uint64(noise[k])] + table[np.uint64(noise[k + ONE])])
        image[at] = unit(image[at] + np.float32(both) * PART)


@kernel
def fill_noise(first: int, size: int, record: Any, noise: Any) -> Any:
    """Write the noise bytes of values from block `first` on; return the first value and a count.

    `size` is of the whole image, and `noise` has room for `BLOCKS` blocks.
    """
    start = first * VALUES
    count = min(BLOCKS * VALUES, size - start)
    blocks = (count + VALUES - 1) // VALUES
    fill_blocks(noise.view(np.uint64), first, blocks, record["seed"])
    return np.uint64(start), np.uint64(count)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        table = scratch[:TABLE].view(np.int32)
        noise = scratch[TABLE : TABLE + 32 * BLOCKS]
        fill_points(record["sigma"], table)
        for first in range(0, (image.size + VALUES - 1) // VALUES, BLOCKS):
            start, count = fill_noise(first, image.size, record, noise)
            add_noise(image, start, count, table, noise)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        table = scratch[:TABLE].view(np.int32)
        noise = scratch[TABLE : TABLE + 32 * BLOCKS]
        fill_points(record["sigma"], table)
        for first in range(0, (image.size + VALUES - 1) // VALUES, BLOCKS):
            start, count = fill_noise(first, image.size, record, noise)
            add_noise_floats(image, start, count, table, noise)


def plain_noise(record: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the noise of an image, in units of 2**-16 level, with NumPy."""
    table = np.zeros(LEVELS, np.int64)
    fill_points(float(record["sigma"]), table)
    seed, size = (int(record["seed"][0]), int(record["seed"][1])), int(np.prod(shape))
    blocks = np.arange(-(-size // VALUES), dtype=np.uint64)
    noise = plain_blocks(blocks, seed)[: 2 * size].reshape(-1, 2)
    both: np.ndarray = table[noise].sum(-1).reshape(shape)
    return both


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        total = (src.astype(np.int64) << 16) + plain_noise(record, src.shape)
        dst[...] = np.clip((total + 2**15) >> 16, 0, 255)


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    return plain_unit(image + plain_noise(record, image.shape).astype(np.float32) * PART)


@register
class GaussianNoise(PixelOp):
    """Add Gaussian noise."""

    sigma_range: Annotated[
        Range, Span(0.0, MOST), "standard deviation, in gray levels, for floats in units of 1 / 255"
    ] = (2.0, 12.0)
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    of_levels = True
    clips_floats = True
    examples = ({"p": 0.9}, {"sigma_range": (0, 128), "p": 0.5})
    picture = {"sigma_range": (25, 25)}
    record = np.dtype([("seed", "u8", (2,)), ("sigma", "f8"), APPLY])
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain_floats, in_place=True)}
    wide = through_floats(floats["image"])
    draw = staticmethod(_draw)
    rescale: ClassVar[None] = None
    units = {"sigma": "gray levels"}

    def scratch(self, state: State) -> int:
        """Return the bytes of the table and of the blocks made at a time."""
        return TABLE + 32 * BLOCKS


gaussian_noise = function(GaussianNoise)
