"""Make single pixels white or black, with probability p: each pixel by two bytes of a counter.

Draws: 0 applied if uniform < p; 1 the amount, uniform in its range; 2 words 0 and 1: a Philox key,
the record's `seed`, whose blocks are read as in gaussian_noise. Pixel n, in memory order, has
v = byte 2n + 256 * byte 2n + 1: if v is below floor(65536 * amount + 0.5), all its channels become
255 (of uint16 65535) if v is odd, else 0. Floats become 1 or 0.
"""

from typing import Annotated, Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, Range, Span
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.float_levels import ONE, ZERO
from stoker.ops.kernels.random_bytes import BLOCKS, VALUES, fill_blocks, plain_blocks
from stoker.rng.draws import bernoulli, uniform_range, word
from stoker.rng.maths import floor

ODD: Final = np.uint16(1)
BLACK: Final = np.uint8(0)
WHITE: Final = np.uint8(255)
WIDE_BLACK: Final = np.uint16(0)
WIDE_WHITE: Final = np.uint16(65535)
WHITES: Final = {"uint8": WHITE, "uint16": WIDE_WHITE}


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["amount"] = uniform_range(key, 1, params["amount_low"], params["amount_high"])
    record["seed"][0] = word(key, 2, 0)
    record["seed"][1] = word(key, 2, 1)


@kernel
def limit_of(amount: float) -> int:
    """Return how many of the 65536 values of a pixel's two bytes change the pixel."""
    return floor(amount * 65536.0 + 0.5)


@kernel
def spoil(image: Any, start: int, count: int, channels: int, noise: Any, spoils: Any) -> None:
    """Overwrite some of `count` pixels of a flat image, from pixel `start` on.

    Args:
        image: flat.
        start: first pixel.
        count: number of pixels.
        channels: values of a pixel.
        noise: their uint16.
        spoils: (number of the 65536 noise values that change a pixel, black, white).
    """
    limit, black, white = spoils
    for i in range(count):
        if np.int64(noise[i]) < limit:
            level = white if noise[i] & ODD else black
            at = np.uint64((start + i) * channels)
            for c in range(np.uint64(channels)):
                image[at + c] = level


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    spoil_all(begin(src, dst), src.shape[2], record, (BLACK, WHITE), scratch)


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    spoil_all(begin(src, dst), src.shape[2], record, (ZERO, ONE), scratch)


@kernel
def _run_wide(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    spoil_all(begin(src, dst), src.shape[2], record, (WIDE_BLACK, WIDE_WHITE), scratch)


@kernel
def spoil_all(image: Any, channels: int, record: Any, colors: Any, scratch: Any) -> None:
    """Give pixels of a flat image the first or the second color, in place."""
    if record["apply"]:
        limit = limit_of(record["amount"])
        made = scratch[: 32 * BLOCKS]
        words, noise = made.view(np.uint64), made.view(np.uint16)
        pixels = image.size // channels
        for first in range(0, (pixels + VALUES - 1) // VALUES, BLOCKS):
            start = first * VALUES
            count = min(BLOCKS * VALUES, pixels - start)
            fill_blocks(words, first, (count + VALUES - 1) // VALUES, record["seed"])
            spoil(image, start, count, channels, noise, (limit, colors[0], colors[1]))


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        height, width, _ = src.shape
        seed = (int(record["seed"][0]), int(record["seed"][1]))
        blocks = np.arange(-(-height * width // VALUES), dtype=np.uint64)
        noise = plain_blocks(blocks, seed).view("<u2")[: height * width]
        noise = noise.reshape(height, width)
        hit = noise < limit_of(float(record["amount"]))
        white: Any = WHITES.get(src.dtype.name, ONE)
        dst[hit] = np.where(noise[hit] % 2 == 1, white, BLACK)[:, None]


@register
class SaltAndPepper(PixelOp):
    """Make single pixels white or black."""

    amount_range: Annotated[Range, Span(0, 1), "fraction of pixels to change"] = (0.01, 0.06)
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    clips_floats = True
    examples = ({"p": 0.9}, {"amount_range": (0, 1), "p": 0.5})
    record = np.dtype([("seed", "u8", (2,)), ("amount", "f8"), APPLY])
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain, in_place=True)}
    wide = {"image": Kernel(_run_wide, _plain, in_place=True)}
    draw = staticmethod(_draw)
    rescale: ClassVar[None] = None

    def scratch(self, state: State) -> int:
        """Return the bytes of the blocks made at a time."""
        return 32 * BLOCKS


salt_and_pepper = function(SaltAndPepper)
