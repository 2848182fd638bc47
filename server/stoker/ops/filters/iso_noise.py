"""Add the noise of a camera at high sensitivity, with probability p: Albumentations' ISONoise.

Draws: 0 applied if uniform < p; 1 the color shift, uniform in its range; 2 the intensity, uniform
in its range; 3 words 0 and 1: a Philox key, the record's `seed`. Each pixel has a Poisson count
that brightens it and a normal turn of its hue, both in HLS; its saturation stays.

The mean of the counts is intensity times the standard deviation of the lightness, in levels; so an
image of one lightness gets no counts. The standard deviation of the turn is color shift times
intensity, in turns of the color circle. Pixel n takes bytes 4n to 4n + 3 of the blocks of that key:
the first two, v = byte 4n + 256 byte (4n + 1), give the count, as in `shot_noise`; the other two
give the turn, as in `gaussian_noise`. Thresholds of counts are off by at most 2**-17.

The lightness and the turn of a pixel are changed in float32: every operation is rounded once, in
the order written. An image of one channel has only the counts.
"""

from typing import Annotated, Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Range, Span
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import GRAY_OR_RGB
from stoker.ops.contract.states import State
from stoker.ops.filters.gaussian_noise import TABLE, fill_noise, fill_points
from stoker.ops.kernels.random_bytes import BLOCKS, VALUES, plain_blocks
from stoker.rng.draws import bernoulli, uniform_range, word
from stoker.rng.maths import exp, floor, sqrt

PART: Final = Span(0.0, 1.0)
COUNTS: Final = 256
"""Places for thresholds. The greatest mean is 127.5, so no count comes near."""
NEVER: Final = 65536
"""A threshold that no two bytes reach."""
ROOM: Final = 32 * BLOCKS
CIRCLE: Final = np.int32(6 * 65536)
"""A turn of the color circle, in units of 2**-16 sixth."""
UNIT: Final = np.float32(2.0**-16)
HALF: Final = np.float32(0.5)
F0: Final = np.float32(0)
F1: Final = np.float32(1)
F2: Final = np.float32(2)
F3: Final = np.float32(3)
F4: Final = np.float32(4)
F6: Final = np.float32(6)
WHITE: Final = np.float32(255)
TWICE: Final = np.float32(510)
"""The greatest sum of the highest and the lowest channel: twice the lightness."""


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["shift"] = uniform_range(key, 1, params["color_shift_low"], params["color_shift_high"])
    record["intensity"] = uniform_range(key, 2, params["intensity_low"], params["intensity_high"])
    record["seed"][0] = word(key, 3, 0)
    record["seed"][1] = word(key, 3, 1)


@kernel
def mean_count(total: int, squares: int, pixels: int, intensity: float) -> float:
    """Return the mean of the counts, from the sums of twice the lightness and of its squares."""
    mean = total / pixels
    return intensity * sqrt(max(squares / pixels - mean * mean, 0.0)) / 2.0


@kernel
def fill_counts(mean: float, table: Any) -> None:
    """Write the thresholds of Poisson counts: `(256,) int32`."""
    part = exp(-mean)
    total = part
    for k in range(COUNTS):
        table[k] = min(floor(total * 65536.0 + 0.5), NEVER) if k < COUNTS - 1 else NEVER
        part = part * mean / (k + 1.0)
        total += part


@kernel
def sum_lightness(image: Any, channels: int) -> Any:
    """Return the sum of twice the lightness of all pixels, and that of its squares."""
    total: Any = 0
    squares: Any = 0
    for k in range(0, image.size, channels):
        high, low = np.int64(image[k]), np.int64(image[k])
        for c in range(1, channels):
            high, low = max(high, np.int64(image[k + c])), min(low, np.int64(image[k + c]))
        total += high + low
        squares += (high + low) * (high + low)
    return total, squares


@kernel
def count_of(drawn: Any, table: Any) -> int:
    """Return the number of thresholds that are not above a draw."""
    count, step = 0, COUNTS // 2
    while step > 0:
        if drawn >= table[count + step - 1]:
            count += step
        step //= 2
    return count


@kernel
def lighter(double: Any, count: Any) -> Any:
    """Return twice the lightness after a count, from twice the lightness before it."""
    return double + count * (TWICE - double) / WHITE


@kernel
def part_at(height: Any) -> Any:
    """Clip the height of a channel, in parts of the difference, to 0 and 1."""
    return min(max(height, F0), F1)


@kernel
def rounded(value: Any) -> Any:
    """Return the level of a value, halves up."""
    return np.uint8(min(max(np.int32(value + HALF), np.int32(0)), np.int32(255)))


@kernel
def change_pixel(image: Any, k: Any, count: Any, turn: Any) -> None:
    """Brighten the pixel of three channels at k, and turn its hue."""
    red, green, blue = np.int32(image[k]), np.int32(image[k + 1]), np.int32(image[k + 2])
    high, low = max(red, green, blue), min(red, green, blue)
    before = np.float32(high + low)
    after = lighter(before, count)
    if high == low:
        image[k] = image[k + 1] = image[k + 2] = rounded(after * HALF)
        return
    difference = np.float32(high - low)
    if red == high:
        sixth = np.float32(green - blue) / difference
    elif green == high:
        sixth = np.float32(blue - red) / difference + F2
    else:
        sixth = np.float32(red - green) / difference + F4
    sixth = sixth + turn
    sixth = sixth + F6 if sixth < F0 else sixth
    sixth = sixth - F6 if sixth >= F6 else sixth
    difference = difference * min(after, TWICE - after) / min(before, TWICE - before)
    base = (after - difference) * HALF
    image[k] = rounded(base + difference * part_at(abs(sixth - F3) - F1))
    image[k + 1] = rounded(base + difference * part_at(F2 - abs(sixth - F2)))
    image[k + 2] = rounded(base + difference * part_at(F2 - abs(sixth - F4)))


@kernel
def change_pixels(
    image: Any, channels: int, start: Any, pixels: Any, noise: Any, counts: Any, turns: Any
) -> None:
    """Change `pixels` pixels of a flat image, from pixel `start` on."""
    for i in range(pixels):
        k, n = (start + i) * channels, 4 * i
        drawn = np.int64(noise[n]) + 256 * np.int64(noise[n + 1])
        count = np.float32(count_of(drawn, counts))
        if channels == 1:
            image[k] = rounded(lighter(np.float32(2 * np.int32(image[k])), count) * HALF)
        else:
            both = np.int32(turns[noise[n + 2]] + turns[noise[n + 3]])
            change_pixel(image, k, count, np.float32(both % CIRCLE) * UNIT)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        channels = src.shape[2]
        pixels = image.size // channels
        noise = scratch[:ROOM]
        turns = scratch[ROOM : ROOM + TABLE].view(np.int32)
        counts = scratch[ROOM + TABLE : ROOM + TABLE + 4 * COUNTS].view(np.int32)
        total, squares = sum_lightness(image, channels)
        fill_counts(mean_count(total, squares, pixels, record["intensity"]), counts)
        fill_points(6.0 * record["shift"] * record["intensity"], turns)
        for first in range(0, (2 * pixels + VALUES - 1) // VALUES, BLOCKS):
            start, number = fill_noise(first, 2 * pixels, record, noise)
            change_pixels(
                image, channels, np.int64(start) // 2, np.int64(number) // 2, noise, counts, turns
            )


def plain_draws(record: Any, mean: float, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the count of each pixel and the turn of its hue in sixths, with NumPy."""
    counts, turns = np.zeros(COUNTS, np.int64), np.zeros(COUNTS, np.int64)
    fill_counts(mean, counts)
    fill_points(6.0 * float(record["shift"]) * float(record["intensity"]), turns)
    seed = (int(record["seed"][0]), int(record["seed"][1]))
    blocks = np.arange(-(-2 * pixels // VALUES), dtype=np.uint64)
    noise = plain_blocks(blocks, seed)[: 4 * pixels].reshape(-1, 4)
    drawn = noise[:, 0] + 256 * noise[:, 1].astype(np.int64)
    count = np.searchsorted(counts, drawn, side="right").astype(np.float32)
    turn = (turns[noise[:, 2:]].sum(-1) % int(CIRCLE)).astype(np.float32) * UNIT
    return count, turn


def plain_change(image: np.ndarray, count: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Return pixels `(n, 1 or 3)` brightened by counts, with their hue turned by sixths."""
    values = image.astype(np.float32)
    high, low = values.max(-1), values.min(-1)
    before = high + low
    after = before + count * (TWICE - before) / WHITE
    if image.shape[1] == 1:
        gray_levels: np.ndarray = np.clip((after * HALF + HALF).astype(np.int32), 0, 255)
        return gray_levels[:, None]
    red, green, blue = values.T
    difference = high - low
    gray = difference == 0
    by = np.where(gray, F1, difference)
    sixth = np.where(green == high, (blue - red) / by + F2, (red - green) / by + F4)
    sixth = np.where(red == high, (green - blue) / by, sixth) + turn
    sixth = np.where(sixth < 0, sixth + F6, sixth)
    sixth = np.where(sixth >= F6, sixth - F6, sixth)
    room = np.where(gray, F1, np.minimum(before, TWICE - before))
    difference = difference * np.minimum(after, TWICE - after) / room
    base = (after - difference) * HALF
    heights = (abs(sixth - F3) - F1, F2 - abs(sixth - F2), F2 - abs(sixth - F4))
    parts = [base + difference * np.clip(height, F0, F1) for height in heights]
    levels: np.ndarray = np.clip((np.stack(parts, -1) + HALF).astype(np.int32), 0, 255)
    return levels


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        image = src.reshape(-1, src.shape[2])
        double = image.max(-1).astype(np.int64) + image.min(-1)
        sums = int(double.sum()), int((double * double).sum())
        mean = mean_count(*sums, len(image), float(record["intensity"]))
        count, turn = plain_draws(record, mean, len(image))
        dst[...] = plain_change(image, count, turn).reshape(src.shape)


@register
class IsoNoise(PixelOp):
    """Add the noise of a camera at high sensitivity."""

    color_shift: Annotated[Range, PART, "deviation of the hue, in turns"] = (0.01, 0.05)
    intensity: Annotated[Range, PART, "strength of both noises"] = (0.1, 0.5)
    p: Probability = 0.5

    image_channels = GRAY_OR_RGB
    examples = ({"p": 0.9}, {"color_shift": (0, 1), "intensity": (0, 1), "p": 0.5})
    record = np.dtype([("shift", "f8"), ("intensity", "f8"), ("seed", "u8", (2,)), APPLY])
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    draw = staticmethod(_draw)
    rescale: ClassVar[None] = None

    def scratch(self, state: State) -> int:
        """Return the bytes of the blocks made at a time, the turns and the thresholds."""
        return ROOM + TABLE + 4 * COUNTS


iso_noise = function(IsoNoise)
