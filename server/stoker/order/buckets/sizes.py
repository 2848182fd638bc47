"""The output size of an image: integers decide everything (contract order v1).

Of all sizes that are allowed, an image gets the one with the greatest score: the part of the image
that a cut to the size's ratio keeps, to the power of `cut_weight`, times the size's area. The part
is a whole number of 2**-30ths, and so is each of its powers, rounded down; so all machines agree.
Of equal scores the one that keeps more wins, then the greater width.

Most sizes cannot win and are not looked at: from a guess, widths are tried outwards in both
directions until a bound says that no further one can have a greater score.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stoker.protocol.errors import UsageError
from stoker.protocol.size_buckets import MAX_SIDE, RATIO_PARTS, Buckets

MAX_PIXELS: Final = 2**28
"""Most pixels of an image with a bucket, so that no product below has more than 62 bits."""
PARTS: Final = 30
"""The part of an image that is kept counts 2**-30ths."""
ROWS: Final = 2**16
"""Most scores at a time of images and a table of sizes."""

Sides = NDArray[np.int64]
Pair = tuple[Sides, Sides]


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


def bucket_sizes(widths: Sides, heights: Sides, request: Buckets) -> Pair:
    """Return the widths and heights of the outputs of images, `(n,) int64` each; see `bucket_size`.

    Raises:
        UsageError: see `bucket_size`; the message names the place of the first such image.
    """
    widths, heights = np.asarray(widths, np.int64), np.asarray(heights, np.int64)
    _check_sides(widths, heights)
    if not request.resize:
        _check_own(widths, heights, request.divisor)
        return widths, heights
    each, places = np.unique(widths << 16 | heights, return_inverse=True)
    own = each >> 16, each & 0xFFFF
    if request.sizes is not None:
        wide, high = _of_table(*own, request)
    else:
        wide, high = _Search(*own, request).sizes()
    return wide[places], high[places]


def _scores(own: Pair, size: Pair, weight: int) -> Pair:
    """Return the scores of sizes for images, and the parts that are kept; arrays broadcast.

    Args:
        own: widths and heights of the images.
        size: widths and heights of the outputs.
        weight: the request's `cut_weight`.
    """
    across, down = size[0] * own[1], size[1] * own[0]
    kept = (np.minimum(across, down) << PARTS) // np.maximum(across, down)
    return _power(kept, weight) * (size[0] * size[1]), kept


def _power(kept: Sides, weight: int) -> Sides:
    """Return powers of parts in 2**-30ths, each multiplication rounded down."""
    found = kept
    for _ in range(weight - 1):
        found = found * kept >> PARTS
    return found


def _of_table(widths: Sides, heights: Sides, request: Buckets) -> Pair:
    assert request.sizes is not None
    wide, high = np.array(sorted(request.sizes, reverse=True), np.int64).T
    least = len(wide) - 1 - int((wide * high)[::-1].argmin())
    chosen = np.empty(len(widths), np.int64)
    rows = max(1, ROWS // len(wide))
    for start in range(0, len(widths), rows):
        part = slice(start, start + rows)
        own = widths[part, None], heights[part, None]
        found, kept = _scores(own, (wide, high), request.cut_weight)
        if not request.upscale:
            fits = (wide <= own[0]) & (high <= own[1])
            fits[~fits.any(1), least] = True  # the smallest is scaled up
            found[~fits] = -1
        kept[found < found.max(1, keepdims=True)] = -1
        chosen[part] = kept.argmax(1)
    return wide[chosen], high[chosen]


class _Search:
    """Finds the best sizes within limits.

    For each width two heights are tried, the multiples below and above the image's ratio, both
    clipped to the limits.
    """

    def __init__(self, widths: Sides, heights: Sides, request: Buckets) -> None:
        assert request.max_area is not None  # Buckets checks it
        self.own = widths, heights
        self.request = request
        self.area, self.d = request.max_area, request.divisor
        self.low, high = request.least_side, request.greatest_side
        self.most = tuple(np.full(len(widths), high) for _ in range(2))
        if not request.upscale:
            self.most = tuple(np.clip(side // self.d * self.d, self.low, high) for side in self.own)
        least = np.full(len(widths), self.low)
        self.best, self.kept = _scores(self.own, (least, least), request.cut_weight)
        self.wide, self.high = least, least.copy()

    def sizes(self) -> Pair:
        """Return the widths and heights."""
        exact = np.sqrt(self.area * (self.own[0] / self.own[1]))
        start = np.clip((exact / self.d).astype(np.int64) * self.d, self.low, self.most[0])
        self._walk(start, -self.d, self._bound_below)
        self._walk(start + self.d, self.d, self._bound_above)
        return self.wide, self.high

    def _walk(self, start: Sides, step: int, bound: Callable[[Sides, Sides], Sides]) -> None:
        """Try widths from a start on, for each image as long as a greater score is possible."""
        images, wide = np.arange(len(start)), start
        while True:
            inside = (wide >= self.low) & (wide <= self.most[0][images])
            useful = inside & (bound(images, wide) >= self.best[images])
            images, wide = images[useful], wide[useful]
            if not images.size:
                return
            for high, fits in self._heights(images, wide):
                self._try(images[fits], wide[fits], high[fits])
            wide = wide + step

    def _heights(self, images: Sides, wide: Sides) -> Iterator[tuple[Sides, NDArray[np.bool_]]]:
        """Yield heights for widths, and where they are within the limits."""
        d = self.d
        low = np.full(len(images), self.low)
        most = np.minimum(self.most[1][images], self.area // wide // d * d)
        if (parts := self.request.ratio_parts) is not None:
            low = np.maximum(low, -(-wide * RATIO_PARTS // (parts * d)) * d)
            most = np.minimum(most, wide * parts // (RATIO_PARTS * d) * d)
        below = wide * self.own[1][images] // (self.own[0][images] * d) * d
        for high in (below, below + d):
            yield np.minimum(np.maximum(high, low), most), low <= most

    def _try(self, images: Sides, wide: Sides, high: Sides) -> None:
        """Keep sizes that are better than the best so far."""
        own = self.own[0][images], self.own[1][images]
        found, kept = _scores(own, (wide, high), self.request.cut_weight)
        equal = (kept == self.kept[images]) & (wide > self.wide[images])
        equal = (found == self.best[images]) & ((kept > self.kept[images]) | equal)
        better = (found > self.best[images]) | equal
        images = images[better]
        self.best[images], self.kept[images] = found[better], kept[better]
        self.wide[images], self.high[images] = wide[better], high[better]

    def _bound_below(self, images: Sides, wide: Sides) -> Sides:
        """Return what no score of a width exceeds: all is kept, at the height above."""
        above = wide * self.own[1][images] // (self.own[0][images] * self.d) * self.d + self.d
        found: Sides = np.minimum(above, MAX_SIDE) * wide << PARTS
        return found

    def _bound_above(self, images: Sides, wide: Sides) -> Sides:
        """Return what no score of a width exceeds: the whole area is filled, and cuts the sides."""
        most = -(-self.area * self.own[0][images] // (wide * self.own[1][images]))
        kept = (np.minimum(most, wide) << PARTS) // wide
        return _power(kept, self.request.cut_weight) * self.area


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
