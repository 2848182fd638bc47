"""Dissolve small buckets: leftovers "merge" (contract order v1).

Buckets that cannot fill one batch are dissolved, the smallest first. An image moves to the
remaining bucket in which it loses least, by comparison of integers: an image of (w, h) keeps
min(W*h, H*w) / max(W*h, H*w) of itself in an output of (W, H); ties go to the larger area, then the
greater width. Without `upscale`, sizes that scale it up are taken only if there are no others. A
sequence moves to the next longer bucket, where it loses nothing; the longest one takes in the next
shorter one instead. So a bucket may grow large enough to stay.
"""

import numpy as np
from numpy.typing import NDArray

from stoker.order.buckets.assign import NONE, Numbers, Sizes


def merge_images(
    own: Numbers,
    sizes: list[tuple[int, int]],
    positions: list[int],
    pictures: list[Sizes],
    *,
    upscale: bool = True,
) -> Numbers:
    """Return the size number of each image after small buckets were dissolved.

    Args:
        own: the size number of each image by the rule, or NONE.
        sizes: all sizes, (width, height).
        positions: positions in a batch of each size.
        pictures: widths and heights of all images, in blocks.
        upscale: whether images may be scaled up.
    """
    widths = np.concatenate([w for w, _ in pictures])
    heights = np.concatenate([h for _, h in pictures])
    where = own.copy()
    counts = counts_of(where, len(sizes))
    by_choice = sorted(range(len(sizes)), key=lambda k: (-sizes[k][0] * sizes[k][1], -sizes[k][0]))
    alive = np.ones(len(sizes), bool)
    while alive.sum() > 1:
        small = [k for k in np.flatnonzero(alive).tolist() if counts[k] < positions[k]]
        if not small:
            break
        least = min(small, key=lambda k: (counts[k], k))
        alive[least] = False
        ids = np.flatnonzero(where == least)
        others = [k for k in by_choice if alive[k]]
        own_sides = widths[ids].astype(np.int64), heights[ids].astype(np.int64)
        best = _best(*own_sides, sizes, others, upscale)
        where[ids] = best
        counts[least] = 0
        np.add.at(counts, best, 1)
    return where


def _best(
    widths: NDArray[np.int64],
    heights: NDArray[np.int64],
    sizes: list[tuple[int, int]],
    choices: list[int],
    upscale: bool,
) -> Numbers:
    """Return the size in which each image loses least; the first of equal ones.

    Floats leave a few choices per image; integers decide between them.
    """
    best = np.empty(len(widths), np.uint16)
    wide, high = np.array([sizes[choice] for choice in choices], np.int64).T
    rows = max(1, (1 << 20) // len(choices))
    for start in range(0, len(widths), rows):
        part = slice(start, start + rows)
        across, down = heights[part, None] * wide, widths[part, None] * high
        less, more = np.minimum(across, down), np.maximum(across, down)
        kept = less / more
        if not upscale:
            fits = (wide <= widths[part, None]) & (high <= heights[part, None])
            kept *= fits | ~fits.any(1, keepdims=True)
        near = kept >= kept.max(1, keepdims=True) * (1 - 1e-9)
        first = near.argmax(1)
        for row in np.flatnonzero(near.sum(1) > 1).tolist():
            for other in np.flatnonzero(near[row]).tolist():
                now = int(first[row])
                ours = int(less[row, other]) * int(more[row, now])
                if ours > int(less[row, now]) * int(more[row, other]):
                    first[row] = other
        best[part] = np.array(choices, np.uint16)[first]
    return best


def merge_lengths(own: Numbers, positions: list[int]) -> Numbers:
    """Return the length number of each sequence after small buckets were dissolved.

    Args:
        own: the length number of each sequence by the rule, or NONE; numbers ascend with length.
        positions: positions in a batch of each length.
    """
    counts = counts_of(own, len(positions))
    alive = np.flatnonzero(counts).tolist()
    to = np.arange(len(positions))
    while len(alive) > 1:
        small = [number for number in alive if counts[number] < positions[number]]
        if not small:
            break
        place = alive.index(min(small, key=lambda number: (counts[number], number)))
        gone = alive.pop(min(place, len(alive) - 2))
        into = alive[min(place, len(alive) - 1)]
        to[to == gone] = into
        counts[into] += counts[gone]
    return np.append(to, np.full(NONE + 1 - len(to), NONE)).astype(np.uint16)[own]


def counts_of(numbers: Numbers, sizes: int) -> NDArray[np.int64]:
    """Return the number of samples of each size."""
    return np.bincount(numbers[numbers != NONE], minlength=sizes)
