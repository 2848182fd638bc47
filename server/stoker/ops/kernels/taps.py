"""Tap tables: the source pixels and weights of every output pixel of a resize.

For each of `size_out` outputs: the first tap's index and `count` integer weights in units of
2**-PRECISION. Support, window, filter and rounding are those of Pillow's antialiased convolution
(Resample.c): the filter is stretched by max(1, scale), the window is clipped to the source, the
weights are divided by their sum and rounded, halves away from zero; for images of floats to
float32. The area filter, which Pillow does not have, weighs every source pixel by the part of it
that the output pixel covers, as OpenCV's INTER_AREA. Everything is float64 with + - * /,
truncation and `stoker.rng.maths.sin`, so the tables have the same bits everywhere.

Window lengths differ by one pixel; in tables of integers the shorter ones are padded with
weight 0, so every output has `count` taps. Their indices may be up to `count` beyond the source:
the passes allow for it. A table of integers may be that of a part of the axis, a span, whose ends
are between the edges of pixels, as those of Pillow's `box`. In tables of floats every output has
its own count, so that NaN does not spread to more pixels.
"""

from typing import Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.rng.maths import sin

PRECISION: Final = 22
"""Fraction bits of a weight: with 8 bits of a level and 2 of overshoot they fill an int32."""

ONE: Final = 4194304.0
"""2**PRECISION."""

TRIANGLE: Final = 0
CUBIC: Final = 1
LANCZOS: Final = 2
AREA: Final = 3

THIRD_TURN: Final = float.fromhex("0x1.0c152382d7365p+0")
"""pi / 3."""

LANCZOS_SCALE: Final = float.fromhex("0x1.37423899a1558p-2")
"""3 / pi**2."""

SLIVER: Final = 2.0**-20
"""Part of a source pixel below which the area filter leaves it out, so that rounding adds none."""


@kernel
def triangle(x: float) -> float:
    """Bilinear filter, support 1."""
    x = abs(x)
    return 1.0 - x if x < 1.0 else 0.0


@kernel
def cubic(x: float) -> float:
    """Bicubic filter with a = -0.5 (Catmull-Rom), support 2."""
    x = abs(x)
    if x < 1.0:
        return (1.5 * x - 2.5) * x * x + 1.0
    if x < 2.0:
        return (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5
    return 0.0


@kernel
def lanczos(x: float) -> float:
    """Lanczos filter with three lobes, sinc(x) * sinc(x / 3), support 3.

    With s = sin(pi x / 3), sin(pi x) is s (3 - 4 s**2): one sine is enough.
    """
    x = abs(x)
    if x >= 3.0:
        return 0.0
    if x == 0.0:
        return 1.0
    s = sin(x * THIRD_TURN)
    square = s * s
    return square * (3.0 - 4.0 * square) * LANCZOS_SCALE / (x * x)


@kernel
def covered(x: float, ratio: float) -> float:
    """Area filter: the part that two pixels share, in units of the larger one.

    Args:
        x: distance of their centers, in units of the larger one.
        ratio: side of the smaller one over that of the larger one.
    """
    return min(max((1.0 + ratio) * 0.5 - abs(x), 0.0), ratio)


@kernel
def value_of(filter_id: int, x: float, ratio: float) -> float:
    """Return a filter's value at x output pixels, or source pixels on enlarging.

    `ratio` is the shorter length of the axis over the longer one; only the area filter reads it.
    """
    if filter_id == TRIANGLE:
        return triangle(x)
    if filter_id == CUBIC:
        return cubic(x)
    return lanczos(x) if filter_id == LANCZOS else covered(x, ratio)


@kernel
def radius_of(filter_id: int) -> int:
    """Return how far a filter reaches, in output pixels, or source pixels on enlarging."""
    return filter_id + 1 if filter_id < AREA else 1


@kernel
def support_of(filter_id: int, scale: float) -> float:
    """Return how far a filter reaches, in source pixels."""
    if filter_id == AREA:
        return (scale + 1.0) * 0.5 - SLIVER
    return radius_of(filter_id) * max(scale, 1.0)


@kernel
def window(center: float, support: float, size_in: int) -> tuple[int, int]:
    """Return (first, end) of the taps of one output pixel, whose center is at `center`."""
    first = max(int(center - support + 0.5), 0)
    return first, min(int(center + support + 0.5), size_in)


@kernel
def tap_bound(size_in: int, size_out: int, filter_id: int) -> int:
    """Return a count that no window exceeds; it never decreases when `size_in` grows."""
    reach = -(-size_in // size_out) if size_in > size_out else 1
    return 2 * radius_of(filter_id) * reach + 4


@kernel
def whole_span(size_in: int) -> tuple[float, float]:
    """Return the span (start, length) of a whole axis."""
    return 0.0, float(size_in)


@kernel
def tap_count(size_in: int, span: Any, size_out: int, filter_id: int) -> int:
    """Return the number of taps per output pixel: the longest window, in whole quads."""
    scale = span[1] / size_out
    support = support_of(filter_id, scale)
    longest = 2
    for index in range(size_out):
        first, end = window(span[0] + (index + 0.5) * scale, support, size_in)
        longest = max(longest, end - first)
    return (longest + 3) // 4 * 4


@kernel
def fill_values(low: int, end: int, center: float, scale: float, filter_id: int, row: Any) -> float:
    """Write the filter's values at the taps of one output pixel; return their sum."""
    total = 0.0
    shrink = 1.0 / max(scale, 1.0)
    ratio = min(scale, shrink)
    for k in range(end - low):
        row[k] = value_of(filter_id, (k + low - center + 0.5) * shrink, ratio)
        total += row[k]
    return total


@kernel
def fill_taps(
    size_in: int,
    span: Any,
    size_out: int,
    filter_id: int,
    count: int,
    first: Any,
    weights: Any,
    row: Any,
) -> None:
    """Write the table of one axis.

    Args:
        size_in: source pixels.
        span: (start, length) of the part that is resized, in source pixels, float64; nothing but
            its pixels should be in the source.
        size_out: output pixels.
        filter_id: number of the filter: `TRIANGLE`, `CUBIC`, `LANCZOS` or `AREA`.
        count: taps per output pixel, from `tap_count`.
        first: `(size_out,) int32`, index of the first tap.
        weights: `(size_out * count,) int32`.
        row: `(count,) float64`, contents undefined.
    """
    scale = span[1] / size_out
    support = support_of(filter_id, scale)
    for index in range(size_out):
        center = span[0] + (index + 0.5) * scale
        low, end = window(center, support, size_in)
        inverse = 1.0 / fill_values(low, end, center, scale, filter_id, row)
        first[index] = low
        for k in range(count):
            weight = row[k] * inverse * ONE if k < end - low else 0.0
            weights[index * count + k] = int(weight - 0.5) if weight < 0.0 else int(weight + 0.5)


@kernel
def fill_float_taps(
    size_in: int, size_out: int, filter_id: int, most: int, spans: Any, weights: Any, row: Any
) -> None:
    """Write the table of one axis for images of floats.

    Args:
        size_in: source pixels.
        size_out: output pixels.
        filter_id: number of the filter: `TRIANGLE`, `CUBIC`, `LANCZOS` or `AREA`.
        most: weights from one output pixel to the next, from `tap_bound`.
        spans: `(2 * size_out,) int32`, first tap and count of every output pixel.
        weights: `(size_out * most,) float32`; beyond the count undefined.
        row: `(most,) float64`, contents undefined.
    """
    scale = size_in / size_out
    support = support_of(filter_id, scale)
    for index in range(size_out):
        center = (index + 0.5) * scale
        low, end = window(center, support, size_in)
        total = fill_values(low, end, center, scale, filter_id, row)
        spans[2 * index] = low
        spans[2 * index + 1] = end - low
        for k in range(end - low):
            weights[index * most + k] = np.float32(row[k] / total)


def plain_float_taps(size_in: int, size_out: int, filter_id: int) -> tuple[np.ndarray, ...]:
    """Return first `(size_out,)`, count and weights `(size_out, taps)`; like `fill_float_taps`."""
    span = whole_span(size_in)
    first, count, weights, total = _plain_values(size_in, span, size_out, filter_id)
    return first, count, (weights / total[:, None]).astype(np.float32)


def plain_taps(
    size_in: int, span: tuple[float, float], size_out: int, filter_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return first `(size_out,)` and weights `(size_out, taps)` with NumPy; like `fill_taps`."""
    first, _, weights, total = _plain_values(size_in, span, size_out, filter_id)
    scaled = weights * (1.0 / total)[:, None] * ONE
    return first, (scaled + np.where(scaled < 0.0, -0.5, 0.5)).astype(np.int64)


def _plain_values(
    size_in: int, span: tuple[float, float], size_out: int, filter_id: int
) -> tuple[np.ndarray, ...]:
    """Return first, count, filter values and their sums, for every output pixel."""
    scale = span[1] / size_out
    stretch = max(scale, 1.0)
    support = support_of(filter_id, scale)
    center = span[0] + (np.arange(size_out) + 0.5) * scale
    first = np.maximum((center - support + 0.5).astype(np.int64), 0)
    count = np.minimum((center + support + 0.5).astype(np.int64), size_in) - first
    offsets = np.arange(int(count.max()))
    x = np.abs((offsets + first[:, None] - center[:, None] + 0.5) * (1.0 / stretch))
    if filter_id == CUBIC:
        near = (1.5 * x - 2.5) * x * x + 1.0
        far = (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5
        weights = np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))
    elif filter_id == LANCZOS:
        weights = np.array([lanczos(at) for at in x.ravel().tolist()]).reshape(x.shape)
    elif filter_id == AREA:
        ratio = min(scale, 1.0 / stretch)
        weights = np.clip((1.0 + ratio) * 0.5 - x, 0.0, ratio)
    else:
        weights = np.where(x < 1.0, 1.0 - x, 0.0)
    weights = np.where(offsets < count[:, None], weights, 0.0)
    total = np.zeros(size_out)
    for column in weights.T:
        total += column
    return first, count, weights, total
