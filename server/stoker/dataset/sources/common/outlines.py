"""Paint outlines of objects, polygons and run-length codes of COCO, into a mask.

Both are converted to the places where a line through all pixels, column by column, enters and
leaves the object. A polygon is followed in fifths of a pixel, and cut where its boundary passes the
middle of a column, by the rule of COCO's own mask API (`rleFrPoly` in
github.com/cocodataset/cocoapi), so that masks have exactly the same pixels as from pycocotools.
Runs in workers on untrusted data: sizes, counts and coordinates are bounded before anything is
allocated.
"""

from collections.abc import Iterable
from typing import Annotated

import msgspec
import numpy as np

from stoker.dataset.limits import CodecError, check_pixels
from stoker.protocol.analysis import analyzed

_SCALE = 5
_MAX_CORNERS = 2**20
_MAX_STEPS = 2**23
"""Maximum points of one boundary; each needs about 80 bytes while it is followed."""
Polygon = Annotated[list[float], msgspec.Meta(max_length=2 * _MAX_CORNERS)]
Size = tuple[int, int]


class Runs(msgspec.Struct, forbid_unknown_fields=True):
    """A run-length code: size (height, width), and the lengths of runs, first one outside."""

    size: Size
    counts: str | list[int]


_DECODER = msgspec.json.Decoder(analyzed(list[Polygon] | Runs))


def paint(shapes: Iterable[tuple[int, bytes]], size: Size, relative: bool) -> np.ndarray:
    """Paint shapes, later ones on top.

    Args:
        shapes: (value, segmentation of COCO as JSON: a list of polygons, or a run-length code).
        size: (height, width) of the mask.
        relative: whether polygons are relative to width and height, not in pixels.

    Returns:
        (height, width) uint8; 0 outside of all shapes.

    Raises:
        CodecError: a shape is invalid.
    """
    check_pixels(*size)
    flat = np.zeros(size[0] * size[1], np.uint8)  # column by column
    for value, text in shapes:
        try:
            outline = _DECODER.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise CodecError(f"a segmentation is damaged: {error}") from None
        if isinstance(outline, Runs):
            _fill(flat, edges_of_runs(outline, size), value)
            continue
        for polygon in outline:
            points = _points(polygon, size, relative)
            _fill(flat, edges_of_polygon(points, size), value)
    return np.ascontiguousarray(flat.reshape(size[1], size[0]).T)


def edges_of_runs(runs: Runs, size: Size) -> np.ndarray:
    """Return the places where runs start and end, alternately.

    Raises:
        CodecError: the code has another size, or is damaged.
    """
    if runs.size != size:
        raise CodecError(
            f"a run-length code is for {runs.size[0]}x{runs.size[1]} pixels (height x width), but "
            f"its image has {size[0]}x{size[1]}"
        )
    counts = uncompressed(runs.counts) if isinstance(runs.counts, str) else runs.counts
    total = size[0] * size[1]
    if sum(counts) != total or min(counts, default=0) < 0:
        raise CodecError(
            f"a run-length code: expected non-negative runs of {total} pixels in total, got "
            f"{sum(counts)}"
        )
    return np.cumsum(np.array(counts, np.int64))


def uncompressed(text: str) -> list[int]:
    """Return the runs of a compressed code.

    Six bits per character, from `0` on: five bits of the number, lowest first, and one that says
    whether more follow; the highest bit of the last character is the sign. From the fourth run on,
    each number is the difference from the run two before.

    Raises:
        CodecError: the text is not such a code.
    """
    counts: list[int] = []
    number = shift = 0
    for letter in text:
        bits = ord(letter) - 48
        if not 0 <= bits < 64 or shift > 60:
            raise CodecError(f"a compressed run-length code cannot have {letter!r} there")
        number |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            number -= 1 << shift
        counts.append(number + counts[-2] if len(counts) > 2 else number)
        number = shift = 0
    if shift:
        raise CodecError("a compressed run-length code ends within a number")
    return counts


def edges_of_polygon(points: np.ndarray, size: Size) -> np.ndarray:
    """Return the places where a line of all columns enters and leaves a polygon, alternately.

    Args:
        points: (n, 2) float64, x and y in pixels.
        size: (height, width) of the mask.

    Raises:
        CodecError: its boundary is too long.
    """
    height, width = size
    u, v = _boundary(np.trunc(_SCALE * points + 0.5).astype(np.int64))
    crossed = np.flatnonzero(u[1:] != u[:-1])
    left = np.minimum(u[crossed], u[crossed + 1])
    top = np.minimum(v[crossed], v[crossed + 1])
    middle = _SCALE // 2
    column = (left - middle) // _SCALE
    counts = (left % _SCALE == middle) & (column >= 0) & (column < width)
    row = np.clip(-((middle - top) // _SCALE), 0, height)  # rounded up
    edges = np.sort(column[counts] * height + row[counts])
    return edges if len(edges) % 2 == 0 else np.append(edges, height * width)


def _boundary(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all points of a closed boundary; each side steps by one along its longer extent."""
    starts, ends = corners, np.roll(corners, -1, axis=0)
    extents = np.abs(ends - starts)
    flat = extents[:, 0] >= extents[:, 1]
    turned = np.where(flat, starts[:, 0] > ends[:, 0], starts[:, 1] > ends[:, 1])
    low, high = np.where(turned[:, None], ends, starts), np.where(turned[:, None], starts, ends)
    steps = extents.max(axis=1)
    if steps.sum() > _MAX_STEPS:
        raise CodecError(
            f"a polygon's boundary is {steps.sum() // _SCALE} pixels long, more than the limit of "
            f"{_MAX_STEPS // _SCALE}; simplify it"
        )
    rise = np.where(flat, high[:, 1] - low[:, 1], high[:, 0] - low[:, 0])
    slope = rise / np.maximum(steps, 1)
    side = np.repeat(np.arange(len(corners)), steps + 1)
    along = np.arange(len(side)) - np.repeat(np.cumsum(steps + 1) - steps - 1, steps + 1)
    along = np.where(turned[side], steps[side] - along, along)
    first = np.where(flat, low[:, 0], low[:, 1])
    second = np.where(flat, low[:, 1], low[:, 0])
    main = first[side] + along
    other = np.trunc(second[side] + slope[side] * along + 0.5).astype(np.int64)
    return np.where(flat[side], main, other), np.where(flat[side], other, main)


def _points(polygon: list[float], size: Size, relative: bool) -> np.ndarray:
    """Return the corners of a polygon in pixels, (n, 2).

    Raises:
        CodecError: it has too few numbers, or extends far beyond its image.
    """
    points = np.array(polygon, np.float64)
    if len(points) < 6 or len(points) % 2:
        raise CodecError(
            f"a polygon: expected x and y of at least 3 corners, got {len(points)} numbers"
        )
    points = points.reshape(-1, 2)
    extent = np.array([size[1], size[0]], np.float64)
    if relative:
        points = points * extent
    if not np.all((points >= -extent) & (points <= 2 * extent)):
        raise CodecError(
            f"a polygon extends further beyond its image of {size[0]}x{size[1]} pixels (height x "
            "width) than the image is wide or high; repair it"
        )
    return points


def _fill(flat: np.ndarray, edges: np.ndarray, value: int) -> None:
    ends = edges.tolist()
    for start, stop in zip(ends[::2], ends[1::2], strict=False):
        flat[start:stop] = value
