"""Fill whole channels with a level, with probability p.

Draws: 0 applied if uniform < p; 1 the number of channels, an integer of its range; 2 a number below
24: a permutation of (0, 1, 2, 3) in lexicographic order. The first existing channels of that order
are filled; at least one channel remains, so an image of one channel never changes.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.fills import fill_levels, require_fill
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin
from stoker.ops.color.color_jitter import write_order
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Value
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import ALPHA, ANY_DTYPE, COLORS
from stoker.ops.contract.states import State
from stoker.rng.draws import bernoulli, integers


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    low, high = int(params["low"]), int(params["high"])
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
@dataclass(frozen=True)
class ChannelDrop(PixelOp):
    """Fill whole channels with a level.

    Attributes:
        count_range: (low, high) of the number of channels to fill, from 1 to 3.
        fill: level of a filled channel, or one for each channel.
        p: probability.
    """

    count_range: tuple[int, int] = (1, 1)
    fill: float | tuple[float, ...] = 0
    p: float = 0.5

    name: ClassVar[str] = "channel_drop"
    image_dtypes = ANY_DTYPE
    image_channels = ALPHA
    of_levels = True
    examples = ({"p": 0.9}, {"count_range": (1, 3), "fill": (7, 8, 9), "p": 0.5})
    parameters: ClassVar[np.dtype[Any]] = np.dtype(
        [("low", "i4"), ("high", "i4"), ("fill", "f4", (COLORS,)), ("p", "f8")]
    )
    record: ClassVar[np.dtype[Any]] = np.dtype([("count", "u1"), ("order", "u1", (4,)), APPLY])
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(_run, _plain, in_place=True)}
    draw = staticmethod(_draw)

    def check(self) -> None:
        """Check the parameters."""
        self.settle(
            count_range=checks.integer_span(self.name, "count_range", self.count_range, 1, 3),
            fill=checks.levels(self.name, "fill", self.fill),
        )
        self.check_p()

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        fill = fill_levels(checks.levels(self.name, "fill", self.fill))[:COLORS]
        return np.array((*self.count_range, fill, self.p), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states unchanged."""
        declared = super().declare(states)
        require_fill(self.name, states, checks.levels(self.name, "fill", self.fill), 0)
        return declared


def channel_drop(
    *values: Value,
    count_range: tuple[int, int] = (1, 1),
    fill: float | tuple[float, ...] = 0,
    p: float = 0.5,
    stream: str | None = None,
    relative: bool = False,
) -> Any:
    """Fill channels of images of a pipeline with a level; see `ChannelDrop`."""
    return ChannelDrop(count_range, fill, p)(*values, stream=stream, relative=relative)
