"""The plan: which bucket each sample has, which samples each bucket has (contract order v1).

Made from widths and heights alone, in blocks, so a million images cost a fraction of a second and
six bytes each. The same plan comes out in every process; its digest is in the StreamSpec.

With leftovers "merge", buckets that cannot fill one batch are dissolved, the smallest first: each
of their images moves to that remaining bucket in which it loses least, by comparison of integers:
an image of (w, h) keeps min(W*h, H*w) / max(W*h, H*w) of itself in an output of (W, H). Ties go to
the larger area, then the greater width. So one may grow large enough to stay.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from stoker.order.buckets.sizes import bucket_sizes
from stoker.protocol import version
from stoker.protocol.buckets import MAX_BUCKETS, MAX_POSITIONS, Bucket, Buckets
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import UsageError

BLOCK: Final = 1 << 16
MAX_SAMPLES: Final = 2**31 - 1
_SHIFT: Final = 32

Sizes = tuple[NDArray[np.int64], NDArray[np.int64]]
Ids = NDArray[np.int32]
Numbers = NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class BucketPlan:
    """The buckets of a dataset.

    Attributes:
        request: what was asked for.
        buckets: all of them, by width, then height; none is empty.
        members: (samples,) int32, sample ids; those of the first bucket, ascending, then those of
            the next.
        starts: where in `members` each bucket begins.
        own: (samples,) uint16, by id: which of `sizes` an image has by the rule.
        sizes: every (width, height) that the rule gave, by width, then height.
        digest: 32 hex digits; plans of one digest are one plan.
    """

    request: Buckets
    buckets: tuple[Bucket, ...]
    members: Ids
    starts: tuple[int, ...]
    own: Numbers
    sizes: tuple[tuple[int, int], ...]
    digest: str

    def ids(self, bucket: int) -> Ids:
        """Return the ids of a bucket's samples, ascending."""
        start = self.starts[bucket]
        return self.members[start : start + self.buckets[bucket].samples]

    def locate(self, sample_id: int) -> tuple[int, int]:
        """Return (bucket, place among its ids) of a sample; looks through all of them.

        Raises:
            UsageError: there is no such id.
        """
        found = np.flatnonzero(self.members == sample_id)
        if not found.size:
            raise UsageError(
                f"an id: expected one from 0 to {len(self.members) - 1}, got {sample_id}"
            )
        bucket = bisect_right(self.starts, int(found[0])) - 1
        return bucket, int(found[0]) - self.starts[bucket]

    def merged(self) -> Ids:
        """Return the ids of the samples that are not in the bucket that the rule gave them."""
        moved = []
        for number, bucket in enumerate(self.buckets):
            ids = self.ids(number)
            moved.append(ids[self.own[ids] != self.sizes.index((bucket.width, bucket.height))])
        return np.sort(np.concatenate(moved))


def make_plan(blocks: Iterable[Sizes], request: Buckets, batch_size: int) -> BucketPlan:
    """Plan the buckets of a dataset.

    Args:
        blocks: widths and heights of all images in the order of their ids, in blocks of any length.
        request: how sizes are chosen, and what becomes of leftovers.
        batch_size: positions in a global batch; where pixels are constant, of the greatest area.

    Raises:
        UsageError: an image has no bucket, there are too many buckets, or none fills a batch.
    """
    own, sizes, pictures = _assign(blocks, request)
    reference = request.max_area or max(width * height for width, height in sizes)
    positions = [_positions(w * h, reference, batch_size, request) for w, h in sizes]
    where = own
    if request.leftovers == "merge":
        where = _merge(own, sizes, positions, pictures)
    counts = np.bincount(where, minlength=len(sizes))
    kept = np.flatnonzero(counts)
    buckets = tuple(Bucket(*sizes[k], int(counts[k]), positions[k]) for k in kept.tolist())
    _check_fills(buckets)
    members = np.argsort(where, kind="stable").astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(counts[kept])[:-1]])
    digest = canonical_digest(
        {
            "version": version.ORDER,
            "request": msgspec.to_builtins(request),
            "batch_size": batch_size,
            "buckets": msgspec.to_builtins(buckets),
            "members": hashlib.blake2b(members.astype("<i4").data, digest_size=16).hexdigest(),
        }
    )
    return BucketPlan(request, buckets, members, tuple(starts.tolist()), own, tuple(sizes), digest)


def _assign(
    blocks: Iterable[Sizes], request: Buckets
) -> tuple[Numbers, list[tuple[int, int]], list[Sizes]]:
    """Return the number of each image's size by the rule, all such sizes, and the images'."""
    keys, pictures, done = [], [], 0
    keep = request.leftovers == "merge"
    for widths, heights in _cut(blocks):
        try:
            wide, high = bucket_sizes(widths, heights, request)
        except UsageError as error:
            raise _with_id(error, done) from None
        found, inverse = np.unique(wide << _SHIFT | high, return_inverse=True)
        keys.append((found, inverse.astype(np.uint16)))
        if keep:
            pictures.append((widths.astype(np.uint16), heights.astype(np.uint16)))
        done += len(widths)
        if done > MAX_SAMPLES:
            raise UsageError(f"buckets: a plan has at most {MAX_SAMPLES} samples")
    if not done:
        raise UsageError("buckets: the dataset has no sample")
    every = np.unique(np.concatenate([found for found, _ in keys]))
    if len(every) > MAX_BUCKETS:
        raise UsageError(
            f"buckets: {len(every)} different sizes, at most {MAX_BUCKETS} are allowed: use a "
            "larger divisor" + ("" if request.resize else ", or resize=True")
        )
    own: Numbers = np.concatenate(
        [np.take(np.searchsorted(every, found).astype(np.uint16), i) for found, i in keys]
    )
    sizes = [(key >> _SHIFT, key & (1 << _SHIFT) - 1) for key in every.tolist()]
    return own, sizes, pictures  # type: ignore[return-value]


def _cut(blocks: Iterable[Sizes]) -> Iterable[Sizes]:
    for widths, heights in blocks:
        for start in range(0, len(widths), BLOCK):
            yield widths[start : start + BLOCK], heights[start : start + BLOCK]


def _with_id(error: UsageError, before: int) -> UsageError:
    place = int(error.details.get("place") or 0)
    message = error.message.replace(f"image {place} ", f"the image of id {before + place} ", 1)
    return UsageError(message, id=before + place)


def _positions(area: int, reference: int, batch_size: int, request: Buckets) -> int:
    if request.constant == "rows":
        return batch_size
    most = min(request.max_rows or MAX_POSITIONS, MAX_POSITIONS)
    return min(max(batch_size * reference // area, request.min_rows), most)


def _merge(
    own: Numbers, sizes: list[tuple[int, int]], positions: list[int], pictures: list[Sizes]
) -> Numbers:
    """Return the number of each image's size after small buckets were dissolved."""
    widths = np.concatenate([w for w, _ in pictures])
    heights = np.concatenate([h for _, h in pictures])
    where = own.copy()
    counts = np.bincount(where, minlength=len(sizes))
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
        best = _best(widths[ids].astype(np.int64), heights[ids].astype(np.int64), sizes, others)
        where[ids] = best
        counts[least] = 0
        np.add.at(counts, best, 1)
    return where


def _best(
    widths: NDArray[np.int64],
    heights: NDArray[np.int64],
    sizes: list[tuple[int, int]],
    choices: list[int],
) -> Numbers:
    """Return the one of some sizes in which each image loses least; the first of equal ones.

    Floats leave a few choices for each image; integers decide between them.
    """
    best = np.empty(len(widths), np.uint16)
    wide, high = np.array([sizes[choice] for choice in choices], np.int64).T
    rows = max(1, (1 << 20) // len(choices))
    for start in range(0, len(widths), rows):
        part = slice(start, start + rows)
        across, down = heights[part, None] * wide, widths[part, None] * high
        less, more = np.minimum(across, down), np.maximum(across, down)
        kept = less / more
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


def _check_fills(buckets: tuple[Bucket, ...]) -> None:
    if any(bucket.samples >= bucket.positions for bucket in buckets):
        return
    most = max(buckets, key=lambda bucket: bucket.samples)
    raise UsageError(
        f"buckets: a batch is larger than every bucket: the fullest, {most.width}x{most.height}, "
        f"has {most.samples} samples for batches of {most.positions}, so an epoch might have no "
        "step; use a smaller batch size, a larger divisor, or leftovers='merge'"
    )
