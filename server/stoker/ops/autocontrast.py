"""Stretch the levels of each channel to 0..255, with probability p: Pillow's ImageOps.autocontrast.

With low and high the channel's least and greatest level and, in float64, scale = 255 / (high - low)
and offset = -low * scale, level x becomes trunc(x * scale + offset). A channel of one level stays.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.ops.contract import Kernel, State, Value
from stoker.ops.pixelwise import LEVELS, ByChance, begin, look_up
from stoker.ops.registry import register
from stoker.rng.jit import kernel


@kernel
def extremes(image: Any, channel: int, channels: int) -> tuple[Any, Any]:
    """Return the least and the greatest level of one channel of a flat image."""
    step, base = np.uint64(channels), np.uint64(channel)
    low, high = image[base], image[base]
    for i in range(np.uint64(image.size // channels)):
        x = image[step * i + base]
        low, high = min(low, x), max(high, x)
    return np.int64(low), np.int64(high)


@kernel
def fill_stretch(low: int, high: int, table: Any, at: int) -> None:
    """Write the 256 new levels of a channel from `low` to `high` to `table[at:]`."""
    if high <= low:
        for x in range(LEVELS):
            table[at + x] = x
        return
    scale = 255.0 / (high - low)
    offset = -low * scale
    for x in range(LEVELS):
        table[at + x] = min(max(int(x * scale + offset), 0), 255)


@kernel
def stretch_levels(image: Any, channels: int, scratch: Any) -> None:
    """Stretch the levels of each channel of a flat image to the whole range, in place."""
    for c in range(channels):
        low, high = extremes(image, c, channels)
        fill_stretch(low, high, scratch, c * LEVELS)
    look_up(image, scratch, channels)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        stretch_levels(image, src.shape[2], scratch)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    for c in range(src.shape[2] if record["apply"] else 0):
        low, high = int(src[..., c].min()), int(src[..., c].max())
        if high > low:
            scale = 255.0 / (high - low)
            stretched = np.arange(LEVELS) * scale + -low * scale
            dst[..., c] = np.clip(stretched.astype(np.int64), 0, 255)[src[..., c]]


@register
@dataclass(frozen=True)
class Autocontrast(ByChance):
    """Stretch the levels of each channel to the whole range; parameters as `ByChance`."""

    name: ClassVar[str] = "autocontrast"
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(_run, _plain, in_place=True)}

    def scratch(self, state: State) -> int:
        """Return the bytes of a table for each channel."""
        return LEVELS * state.bound[2]


def autocontrast(*values: Value, p: float = 0.5, stream: str | None = None) -> Any:
    """Stretch the levels of images of a pipeline with probability p; see `Autocontrast`."""
    return Autocontrast(p)(*values, stream=stream)
