"""Assign a size to each sample by the rule, block by block; some samples get no size.

Two bytes per sample are kept; the sizes themselves only if buckets may be merged.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stoker.order.buckets.bucket_lengths import bucket_lengths
from stoker.order.buckets.sizes import bucket_sizes
from stoker.protocol.errors import UsageError
from stoker.protocol.length_buckets import Request
from stoker.protocol.size_buckets import MAX_BUCKETS, Buckets

BLOCK: Final = 1 << 16
MAX_SAMPLES: Final = 2**31 - 1
NONE: Final = 65535
"""Size number of a sample that has no size."""
_SHIFT: Final = 32
_NO_KEY: Final = 0

Whole = NDArray[np.integer[Any]]
Sizes = tuple[Whole, Whole]
Numbers = NDArray[np.uint16]


@dataclass(frozen=True)
class Assigned:
    """Every sample with its size.

    Attributes:
        own: by id: the index in `sizes` of the sample's size, or NONE.
        sizes: every (width, height) from the rule, by width, then height.
        pictures: widths and heights of all images, by id, if they are kept.
    """

    own: Numbers
    sizes: list[tuple[int, int]]
    pictures: list[Sizes]


def assign(blocks: Iterable[Sizes], request: Request, excluded: NDArray[np.int64]) -> Assigned:
    """Return the size of each sample by the rule.

    Args:
        blocks: widths and heights of all images in the order of their ids; for sequences the
            lengths, twice.
        request: how sizes are chosen.
        excluded: ids of samples that get no size, ascending.

    Raises:
        UsageError: a sample has no bucket, there are too many buckets, or there are no samples.
    """
    keys: list[tuple[NDArray[np.int64], Numbers]] = []
    pictures: list[Sizes] = []
    done = 0
    keep = isinstance(request, Buckets) and request.leftovers == "merge"
    for widths, heights in _cut(blocks):
        lo, hi = np.searchsorted(excluded, (done, done + len(widths)))
        found, inverse = np.unique(
            _keys(widths, heights, request, excluded[lo:hi] - done, done), return_inverse=True
        )
        keys.append((found, inverse.astype(np.uint16)))
        if keep:
            pictures.append((widths.astype(np.uint16), heights.astype(np.uint16)))
        done += len(widths)
        if done > MAX_SAMPLES:
            raise UsageError(f"buckets: expected at most {MAX_SAMPLES} samples in a plan")
    if not any(found.any() for found, _ in keys):
        raise UsageError(
            "buckets: the dataset has no sample" + " that is not left out" * bool(done)
        )
    every = np.unique(np.concatenate([found for found, _ in keys]))
    every = every[every != _NO_KEY]
    if len(every) > MAX_BUCKETS:
        raise UsageError(
            f"buckets: {len(every)} different sizes, but at most {MAX_BUCKETS} are allowed: use a "
            f"{_remedy(request)}"
        )
    own = np.concatenate([np.take(_numbers(every, found), places) for found, places in keys])
    sizes = [(key >> _SHIFT, key & (1 << _SHIFT) - 1) for key in every.tolist()]
    return Assigned(own, sizes, pictures)


def _keys(
    widths: Whole,
    heights: Whole,
    request: Request,
    left_out: NDArray[np.int64],
    first: int,
) -> NDArray[np.int64]:
    """Return a key for the size of each sample of a block, except for places in `left_out`."""
    kept = np.arange(len(widths))
    if left_out.size:
        kept = np.delete(kept, left_out)
        widths, heights = widths[kept], heights[kept]
    try:
        if isinstance(request, Buckets):
            wide, high = bucket_sizes(widths.astype(np.int64), heights.astype(np.int64), request)
            made = wide << _SHIFT | high
        else:
            made = bucket_lengths(widths, request) << _SHIFT
    except UsageError as error:
        raise _with_id(error, kept, first) from None
    if not left_out.size:
        return made
    keys = np.full(len(widths) + len(left_out), _NO_KEY, np.int64)
    keys[kept] = made
    return keys


def _numbers(every: NDArray[np.int64], found: NDArray[np.int64]) -> Numbers:
    numbers = np.searchsorted(every, found).astype(np.uint16)
    numbers[found == _NO_KEY] = NONE
    return numbers


def _cut(blocks: Iterable[Sizes]) -> Iterator[Sizes]:
    for widths, heights in blocks:
        for start in range(0, len(widths), BLOCK):
            yield widths[start : start + BLOCK], heights[start : start + BLOCK]


def _with_id(error: UsageError, kept: NDArray[np.int64], first: int) -> UsageError:
    """Turn an error about a place in a block into one about an id."""
    place = int(error.details.get("place") or 0)
    number = first + int(kept[place])
    message = error.message
    for what in ("image", "sequence"):
        message = message.replace(f"{what} {place} ", f"the {what} of id {number} ", 1)
    return UsageError(message, id=number)


def _remedy(request: Request) -> str:
    if isinstance(request, Buckets):
        return "larger divisor" + ("" if request.resize else ", or resize=True")
    return "larger multiple, or bounds"
