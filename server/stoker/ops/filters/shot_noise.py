"""Add the noise of counted photons, with probability p, as Albumentations' ShotNoise.

Draws: 0 applied if uniform < p; 1 the scale, uniform in its range; 2 words 0 and 1: a Philox key,
the record's `seed`. A level x becomes light, (x / 255)**2.2; the count of its photons is Poisson
with the mean light / scale, and count * scale, at most 1, becomes a level again. Values of all
channels are independent.

Value n of the image, in memory order, takes v = byte 2n + 256 byte (2n + 1) of the blocks of that
key, as in `salt_and_pepper`. Its count is the number of thresholds of its level that are not above
v. Threshold k is floor(65536 P(count <= k) + 0.5), so a probability is off by at most 2**-16.
Counts from 1 / scale on are one: they are level 255.
"""

from typing import Annotated, Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, LEVELS, PixelOp, begin
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Range, Span
from stoker.ops.contract.registry import register
from stoker.ops.contract.states import State
from stoker.ops.filters.gaussian_noise import fill_noise
from stoker.ops.kernels.random_bytes import BLOCKS, VALUES, plain_blocks
from stoker.rng.draws import bernoulli, uniform_range, word
from stoker.rng.maths import exp, floor, log

LEAST: Final = 0.01
"""At most 100 counts, so that tables stay small."""
NEVER: Final = 65536
"""A threshold that no two bytes reach."""
ROOM: Final = 32 * BLOCKS
ONE: Final = np.uint64(1)
TWO: Final = np.uint64(2)
BYTE: Final = np.uint64(8)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["scale"] = uniform_range(key, 1, params["scale_low"], params["scale_high"])
    record["seed"][0] = word(key, 2, 0)
    record["seed"][1] = word(key, 2, 1)


@kernel
def most_photons(scale: float) -> int:
    """Return the least count whose level is 255."""
    most = int(1.0 / scale)
    return most if most * scale >= 1.0 else most + 1


@kernel
def places_of(scale: float) -> int:
    """Return the thresholds of a level: a power of two above the greatest count."""
    count = 2
    while count <= most_photons(scale):
        count *= 2
    return count


@kernel
def fill_thresholds(scale: float, count: int, table: Any) -> None:
    """Write the thresholds of all levels: `(256 * count,) int32`, level by level."""
    most = most_photons(scale)
    for x in range(LEVELS):
        mean = exp(2.2 * log(x / 255.0)) / scale if x > 0 else 0.0
        part = exp(-mean)
        total = part
        for k in range(count):
            table[count * x + k] = min(floor(total * 65536.0 + 0.5), NEVER) if k < most else NEVER
            part = part * mean / (k + 1.0)
            total += part


@kernel
def fill_levels(scale: float, count: int, table: Any) -> None:
    """Write the level of each count: `(count,) uint8`."""
    table[0] = 0
    for k in range(1, count):
        light = min(k * scale, 1.0)
        table[k] = floor(255.0 * exp(log(light) / 2.2) + 0.5)


@kernel
def count_photons(
    image: Any, start: Any, number: Any, noise: Any, thresholds: Any, levels: Any
) -> None:
    """Replace `number` values of a flat image, from `start` on, by levels of drawn counts."""
    places = len(levels)
    for i in range(number):
        at, k = start + i, TWO * i
        drawn = np.int64(np.uint64(noise[k]) + (np.uint64(noise[k + ONE]) << BYTE))
        first, count, step = np.int64(image[at]) * places - 1, 0, places // 2
        while step > 0:
            if drawn >= thresholds[first + count + step]:
                count += step
            step //= 2
        image[at] = levels[count]


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        count = places_of(record["scale"])
        noise, levels = scratch[:ROOM], scratch[ROOM : ROOM + count]
        thresholds = scratch[ROOM + LEVELS : ROOM + LEVELS + 4 * LEVELS * count].view(np.int32)
        fill_thresholds(record["scale"], count, thresholds)
        fill_levels(record["scale"], count, levels)
        for first in range(0, (image.size + VALUES - 1) // VALUES, BLOCKS):
            start, number = fill_noise(first, image.size, record, noise)
            count_photons(image, start, number, noise, thresholds, levels)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        scale = float(record["scale"])
        count = places_of(scale)
        thresholds, levels = np.zeros(LEVELS * count, np.int64), np.zeros(count, np.uint8)
        fill_thresholds(scale, count, thresholds)
        fill_levels(scale, count, levels)
        seed = (int(record["seed"][0]), int(record["seed"][1]))
        blocks = np.arange(-(-src.size // VALUES), dtype=np.uint64)
        drawn = plain_blocks(blocks, seed).view("<u2")[: src.size]
        photons = np.empty(src.size, np.int64)
        for x in np.unique(src):
            same = src.ravel() == x
            of_level = thresholds[count * int(x) : count * (int(x) + 1)]
            photons[same] = np.searchsorted(of_level, drawn[same], side="right")
        dst[...] = levels[photons].reshape(src.shape)


@register
class ShotNoise(PixelOp):
    """Add the noise of counted photons."""

    scale_range: Annotated[
        Range,
        Span(LEAST, 1.0),
        "light of one photon, from 0.01 to 1, where 1 is white: the more, the noisier",
    ] = (0.1, 0.3)
    p: Probability = 0.5

    examples = ({"p": 0.9}, {"scale_range": (0.01, 1), "p": 0.5})
    record = np.dtype([("scale", "f8"), ("seed", "u8", (2,)), APPLY])
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    draw = staticmethod(_draw)
    rescale: ClassVar[None] = None

    def scratch(self, state: State) -> int:
        """Return the bytes of the blocks made at a time, the levels and the thresholds."""
        return int(ROOM + LEVELS + 4 * LEVELS * places_of(self.scale_range[0]))


shot_noise = function(ShotNoise)
