"""Fill whole channels with a level, with probability p.

Draws: 0 applied if uniform < p; 1 the number of channels, an integer of its range; 2 a number below
24: a permutation of (0, 1, 2, 3) in lexicographic order. The first existing channels of that order
are filled; at least one channel remains, so an image of one channel never changes.
"""

from typing import Annotated, Any

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import require_fill
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin
from stoker.ops.color.color_jitter import write_order
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Levels, PerChannel, Probability, WholeRange, WholeSpan
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import ALPHA, ANY_DTYPE
from stoker.ops.contract.states import State
from stoker.rng.draws import bernoulli, integers


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    low, high = int(params["count_low"]), int(params["count_high"])
    record["count"] = low + int(integers(key, 1, high - low + 1))
    write_order(int(integers(key, 2, 24)), record["order"])


@kernel
def fill_channel(image: Any, channel: Any, channels: Any, level: Any) -> None:
    """Fill one channel of a flat image."""
    for i in range(np.uint64(image.size) // channels):
        image[i * channels + channel] = level


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image, channels = begin(src, dst), src.shape[2]
    left = min(np.int64(record["count"]), channels - 1) if record["apply"] else 0
    for i in range(4):
        channel = np.int64(record["order"][i])
        if left > 0 and channel < channels:
            fill_channel(image, np.uint64(channel), np.uint64(channels), params["fill"][channel])
            left -= 1


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        there = [c for c in np.asarray(record["order"]) if c < src.shape[2]]
        dropped = there[: min(int(record["count"]), len(there) - 1)]
        dst[..., dropped] = np.asarray(params["fill"])[dropped]


@register
class ChannelDrop(PixelOp):
    """Fill whole channels with a level."""

    count_range: Annotated[WholeRange, WholeSpan(1, 3), "number of filled channels"] = (1, 1)
    fill: Annotated[PerChannel, Levels(), "level of a filled channel, or one for each"] = 0
    p: Probability = 0.5

    image_dtypes = ANY_DTYPE
    image_channels = ALPHA
    of_levels = True
    examples = ({"p": 0.9}, {"count_range": (1, 3), "fill": (7, 8, 9), "p": 0.5})
    record = np.dtype([("count", "u1"), ("order", "u1", (4,)), APPLY])
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    draw = staticmethod(_draw)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        declared = super().declare(states)
        require_fill(self.name, states, self.fill, 0)
        return declared


channel_drop = function(ChannelDrop)
