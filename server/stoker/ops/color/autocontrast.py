"""Stretch the levels of each channel to 0..255, with probability p: Pillow's ImageOps.autocontrast.

With low and high the channel's minimum and maximum level and, in float64, scale = 255 /
(high - low) and offset = -low * scale, level x becomes trunc(x * scale + offset). A channel of
one level does not change.

For floats, (x - low) / (high - low), two float32 subtractions and a division, clipped; low and high
ignore NaN, and a channel without two different numbers does not change.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import LEVELS, ByChance, begin, bring, look_up, plain_floats
from stoker.ops.bases.wide_floats import through_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import FLOAT, LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.float_levels import (
    BELOW,
    NO_NUMBER,
    ONE,
    ZERO,
    float_of,
    key_of,
    plain_unit,
    unit,
)

LEAST: Final = np.int32(-(1 << 31))
PIXELS: Final = 512
"""Pixels of floats that are processed together."""


@kernel
def extremes(image: Any, channel: int, channels: int) -> tuple[Any, Any]:
    """Return the minimum and the maximum level of one channel of a flat image."""
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


@kernel
def widen(image: Any, at: Any, lows: Any, highs: Any, n: Any) -> None:
    """Update the minimum and maximum of each place with the keys of `n` values from index `at` on.

    See `stoker.ops.kernels.float_levels`; NaN is ignored.
    """
    for j in range(n):
        key = key_of(image[at + j])
        lows[j] = min(lows[j], key)
        highs[j] = max(highs[j], LEAST if key == NO_NUMBER else key)


@kernel
def stretch_line(image: Any, at: Any, lows: Any, extents: Any, n: Any) -> None:
    """Stretch `n` values, from index `at` on, by each place's minimum and extent, if any."""
    for j in range(n):
        x = image[at + j]
        image[at + j] = unit((x - lows[j]) / extents[j]) if extents[j] > ZERO else x


@kernel
def find_extents(channels: int, lows: Any, highs: Any) -> Any:
    """Compute each channel's minimum and extent, -1 if it does not change, from its places' keys.

    Args:
        channels: values of a pixel.
        lows: minimum keys, places in a line; receives the values, as float32.
        highs: maximum keys; receives the extents, as float32.
    """
    least, extents = lows.view(np.float32), highs.view(np.float32)
    for c in range(channels):
        low, high = lows[c], highs[c]
        for j in range(c, lows.size, channels):
            low, high = min(low, lows[j]), max(high, highs[j])
        bottom, top = float_of(low), float_of(high)
        extent = top - bottom if top > bottom else -ONE
        for j in range(c, lows.size, channels):
            least[j], extents[j] = bottom, extent
    return least, extents


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if not record["apply"]:
        begin(src, dst)
        return
    source, image = src.reshape(src.size), dst.reshape(dst.size)
    line = PIXELS * src.shape[2]
    lows, highs = scratch[: 4 * line].view(np.int32), scratch[4 * line : 8 * line].view(np.int32)
    lows[:] = BELOW
    highs[:] = LEAST
    for at in range(0, source.size, line):
        widen(source, np.uint64(at), lows, highs, np.uint64(min(line, source.size - at)))
    least, extents = find_extents(src.shape[2], lows, highs)
    for at in range(0, source.size, line):
        n = min(line, source.size - at)
        bring(src, dst, at, n)
        stretch_line(image, np.uint64(at), least, extents, np.uint64(n))


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    result = image.copy()
    for c in range(image.shape[2]):
        channel = image[..., c]
        numbers = channel[~np.isnan(channel)]
        if numbers.size and numbers.max() > numbers.min():
            low, high = numbers.min(), numbers.max()
            result[..., c] = plain_unit((channel - low) / (high - low))
    return result


@register
class Autocontrast(ByChance):
    """Stretch the levels of each channel to the whole range."""

    image_dtypes = LEVELS_FLOATS
    of_levels = True
    clips_floats = True
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain_floats, in_place=True)}
    wide = through_floats(floats["image"])

    def scratch(self, state: State) -> int:
        """Return the bytes of a table for each channel; for floats, of two lines of four bytes."""
        return (8 * PIXELS if state.dtype == FLOAT else LEVELS) * state.bound[2]


autocontrast = function(Autocontrast)
