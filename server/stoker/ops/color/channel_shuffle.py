"""Put the channels into a random order, with probability p: torchvision's channel permutation.

Draws: 0 applied if uniform < p; 1 a number below 24: a permutation of (0, 1, 2, 3) in lexicographic
order. An image of fewer channels uses only the numbers of its channels, in the same order, so all
its orders are equally likely.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, ByChance, begin
from stoker.ops.color.color_jitter import write_order
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import ALPHA, ANY_DTYPE
from stoker.ops.contract.states import State
from stoker.rng.draws import bernoulli, integers

ZERO: Final = np.uint8(0)
ONE: Final = np.uint8(1)
K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    write_order(int(integers(key, 1, 24)), record["order"])


@kernel
def permute(image: Any, channels: int, order: Any, pixel: Any) -> None:
    """Permute the channels of a flat image in place; `pixel` is `(4,)`, of its dtype."""
    step = np.uint64(channels)
    for i in range(np.uint64(image.size // channels)):
        k = step * i
        for c in range(step):
            pixel[c] = image[k + c]
        at = k
        for c in range(4):
            if order[c] < channels:
                image[at] = pixel[np.uint64(order[c])]
                at += np.uint64(1)


@kernel
def permute3(image: Any, order: Any) -> None:
    """Permute three channels of a flat image in place, many pixels at once."""
    kept = 0
    first, second, third = ZERO, ZERO, ZERO
    for c in range(4):
        if order[c] < 3:
            chosen = np.uint8(order[c])
            first = chosen if kept == 0 else first
            second = chosen if kept == 1 else second
            third = chosen if kept == 2 else third
            kept += 1
    for i in range(np.uint64(image.size // 3)):
        k = K3 * i
        pixel = (image[k], image[k + K1], image[k + K2])
        image[k] = choose(pixel, first)
        image[k + K1] = choose(pixel, second)
        image[k + K2] = choose(pixel, third)


@kernel
def choose(pixel: Any, channel: Any) -> Any:
    """Return one of three values; a choice, unlike an index, can be vectorized."""
    later = pixel[1] if channel == ONE else pixel[2]
    return pixel[0] if channel == ZERO else later


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"] and src.shape[2] == 3:
        permute3(image, record["order"])
    elif record["apply"] and src.shape[2] > 1:
        permute(image, src.shape[2], record["order"], scratch[:16].view(src.dtype))


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    order = [c for c in np.asarray(record["order"]) if c < src.shape[2]]
    dst[...] = src[..., order] if record["apply"] else src


@register
class ChannelShuffle(ByChance):
    """Put the channels into a random order."""

    image_dtypes = ANY_DTYPE
    image_channels = ALPHA
    of_levels = True
    examples = ({"p": 0.9}, {"p": 0.5})
    record = np.dtype([("order", "u1", (4,)), APPLY])
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    draw = staticmethod(_draw)

    def scratch(self, state: State) -> int:
        """Return the bytes of a pixel of floats."""
        return 16


channel_shuffle = function(ChannelShuffle)
