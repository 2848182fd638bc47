"""The output size of an image: integers decide everything (contract order v1).

With s = sqrt(max_area / (width * height)) an image of (width * s) x (height * s) fills the area and
keeps its aspect ratio. Each side goes to the nearest multiple of the divisor, ties up. If the area
is then too large, both sides are rounded down instead. Sides are clamped to their limits, and if
that makes the area too large again, the longer one is reduced to fit the area. s is never computed:
a multiple m of d is at or below side * s + d / 2 if (2m - d)**2 * width * height is at most
4 * side**2 * max_area.

Based on an idea in waifu-diffusion's pull request 59, whose description has two mistakes: the scale
is inverted there, and both sides are computed from the width.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stoker.protocol.buckets import MAX_SIDE, Buckets
from stoker.protocol.errors import UsageError

MAX_PIXELS: Final = 2**28
"""Most pixels of an image with a bucket, so that no product below has more than 62 bits."""

Sides = NDArray[np.int64]


def bucket_size(width: int, height: int, request: Buckets) -> tuple[int, int]:
    """Return (width, height) of the output of an image.

    Args:
        width: width of the image in pixels.
        height: height of the image in pixels.
        request: how sizes are chosen.

    Raises:
        UsageError: the image is empty or too large; or, without resizing, a side is not a multiple
            of the divisor.
    """
    wide, high = bucket_sizes(np.array([width]), np.array([height]), request)
    return int(wide[0]), int(high[0])


def bucket_sizes(widths: Sides, heights: Sides, request: Buckets) -> tuple[Sides, Sides]:
    """Return the widths and heights of the outputs of images, `(n,) int64` each; see `bucket_size`.

    Raises:
        UsageError: see `bucket_size`; the message names the place of the first such image.
    """
    widths, heights = np.asarray(widths, np.int64), np.asarray(heights, np.int64)
    _check_sides(widths, heights)
    if not request.resize:
        _check_own(widths, heights, request.divisor)
        return widths, heights
    assert request.max_area is not None  # Buckets checks it
    d, area = request.divisor, request.max_area
    pixels = widths * heights
    wide, high = (_multiple(side, pixels, area, d, d) for side in (widths, heights))
    large = np.flatnonzero(wide * high > area)
    if large.size:
        for side, out in ((widths, wide), (heights, high)):
            out[large] = _multiple(side[large], pixels[large], area, d, 0)
    for out in (wide, high):
        np.clip(out, request.least_side, request.greatest_side, out=out)
    large = np.flatnonzero(wide * high > area)
    if large.size:
        least = np.minimum(wide[large], high[large])
        most = area // least // d * d
        wide[large] = np.minimum(wide[large], most)
        high[large] = np.where(wide[large] * high[large] > area, most, high[large])
    return wide, high


def _multiple(sides: Sides, pixels: Sides, area: int, divisor: int, up: int) -> Sides:
    """Return the greatest multiples m of a divisor with (2m - up)**2 * pixels <= 4*side**2*area.

    `up` is the divisor, which rounds to the nearest multiple, or 0, which rounds down. A float
    gives the first guess; integers correct it.
    """
    limit = 4 * sides * sides * area
    guess = sides * np.sqrt(area / pixels) / divisor + 0.5 * bool(up)
    found = guess.astype(np.int64) * divisor
    while (beyond := found * ((2 * found - up) ** 2 * pixels > limit)).any():
        found -= divisor * (beyond > 0)
    while (more := (2 * (found + divisor) - up) ** 2 * pixels <= limit).any():
        found += divisor * more
    return found


def _check_sides(widths: Sides, heights: Sides) -> None:
    bad = (widths < 1) | (heights < 1) | (widths > MAX_SIDE) | (heights > MAX_SIDE)
    bad |= widths * heights > MAX_PIXELS
    if bad.any():
        place = int(np.argmax(bad))
        raise UsageError(
            f"buckets: image {place} has {widths[place]}x{heights[place]} pixels; expected sides "
            f"from 1 to {MAX_SIDE} and at most {MAX_PIXELS} pixels",
            place=place,
        )


def _check_own(widths: Sides, heights: Sides, divisor: int) -> None:
    bad = (widths % divisor != 0) | (heights % divisor != 0)
    if bad.any():
        place = int(np.argmax(bad))
        raise UsageError(
            f"buckets: without resizing every side must be a multiple of divisor={divisor}; image "
            f"{place} has {widths[place]}x{heights[place]} pixels, and {int(bad.sum())} do not "
            "fit: use resize=True with a max_area, or divisor=1",
            place=place,
        )
