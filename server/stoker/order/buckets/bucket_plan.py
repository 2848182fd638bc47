"""The plan: the bucket of each sample, and the samples of each bucket (contract order v1).

Computed only from the sizes of all samples, in blocks, so a million of them take a fraction of a
second and six bytes each. Every process computes the same plan; its digest is in the StreamSpec.
`sizes` and `bucket_lengths` define the sizes, `merging` dissolves small buckets.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stoker.order.buckets.assign import NONE, Numbers, Sizes, assign
from stoker.order.buckets.merging import counts_of, merge_images, merge_lengths
from stoker.protocol import version
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import UsageError
from stoker.protocol.length_buckets import Request
from stoker.protocol.size_buckets import MAX_POSITIONS, Bucket, Buckets

Ids = NDArray[np.int32]
NO_IDS: Final = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class BucketPlan:
    """The buckets of a dataset.

    Attributes:
        request: the request.
        buckets: all buckets, by width, then height; none is empty.
        members: (samples,) int32, sample ids; those of the first bucket, ascending, then those of
            the next. Samples that are left out are not in it.
        starts: where each bucket begins in `members`.
        own: (dataset's samples,) uint16, by id: index in `sizes` of the sample's size by the rule.
        sizes: every (width, height) from the rule, by width, then height.
        digest: 32 hex digits; plans with the same digest are the same.
    """

    request: Request
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
        """Return (bucket, place among its ids) of a sample; searches all samples.

        Raises:
            UsageError: there is no such id.
        """
        found = np.flatnonzero(self.members == sample_id)
        if not found.size:
            if 0 <= sample_id < len(self.own):
                raise UsageError(f"id {sample_id} is in no bucket: the plan leaves it out")
            raise UsageError(f"expected an id from 0 to {len(self.own) - 1}, got {sample_id}")
        bucket = bisect_right(self.starts, int(found[0])) - 1
        return bucket, int(found[0]) - self.starts[bucket]

    @property
    def excluded(self) -> int:
        """Number of samples that are in no bucket."""
        return len(self.own) - len(self.members)

    def excluded_ids(self) -> Ids:
        """Return the ids of the samples that are in no bucket, ascending."""
        return np.flatnonzero(self.own == NONE).astype(np.int32)

    def merged(self) -> Ids:
        """Return the ids of the samples in another bucket than the rule chose."""
        moved = []
        for number, bucket in enumerate(self.buckets):
            ids = self.ids(number)
            moved.append(ids[self.own[ids] != self.sizes.index((bucket.width, bucket.height))])
        return np.sort(np.concatenate(moved))


def make_plan(
    blocks: Iterable[Sizes],
    request: Request,
    batch_size: int,
    excluded: NDArray[np.int64] = NO_IDS,
) -> BucketPlan:
    """Plan the buckets of a dataset.

    Args:
        blocks: widths and heights of all images in the order of their ids, in blocks of any length;
            for sequences the lengths, twice. Of a mixture, those of one dataset after the other.
        request: how sizes are chosen, and what happens to leftovers.
        batch_size: positions in a global batch; with constant pixels or tokens, in one of the
            greatest size.
        excluded: ids of samples that get no bucket, ascending.

    Raises:
        UsageError: a sample has no bucket, there are too many buckets, or none fills a batch.
    """
    found = assign(blocks, request, excluded)
    areas = [width * (height or 1) for width, height in found.sizes]
    reference = request.reference or max(areas)
    positions = [_positions(area, reference, batch_size, request) for area in areas]
    where = found.own
    if request.leftovers == "merge":
        if isinstance(request, Buckets):
            where = merge_images(
                found.own, found.sizes, positions, found.pictures, upscale=request.upscale
            )
        else:
            where = merge_lengths(found.own, positions)
    counts = counts_of(where, len(areas))
    kept = np.flatnonzero(counts)
    buckets = tuple(
        Bucket(*found.sizes[k], int(counts[k]), positions[k], int(counts[k])) for k in kept.tolist()
    )
    check_fills(buckets)
    members = np.argsort(where, kind="stable")[: int(counts.sum())].astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(counts[kept])[:-1]])
    digest = canonical_digest(
        {
            "version": version.ORDER,
            "request": request.to_data(),
            "batch_size": batch_size,
            "buckets": [[b.width, b.height, b.samples, b.positions] for b in buckets],
            "members": hashlib.blake2b(members.astype("<i4").data, digest_size=16).hexdigest(),
        }
    )
    return BucketPlan(
        request, buckets, members, tuple(starts.tolist()), found.own, tuple(found.sizes), digest
    )


def _positions(area: int, reference: int, batch_size: int, request: Request) -> int:
    if request.constant == "rows":
        return batch_size
    most = min(request.max_rows or MAX_POSITIONS, MAX_POSITIONS)
    return min(max(batch_size * reference // area, request.min_rows), most)


def check_fills(buckets: Sequence[Bucket]) -> None:
    """Check that every epoch has a step.

    Raises:
        UsageError: a batch is larger than every bucket.
    """
    if any(bucket.rows >= bucket.positions for bucket in buckets):
        return
    most = max(buckets, key=lambda bucket: bucket.rows)
    what = "samples" if most.rows == most.samples else "rows an epoch"
    raise UsageError(
        f"buckets: a batch is larger than every bucket: the fullest one, {most.name}, "
        f"has {most.rows} {what} for batches of {most.positions}, so an epoch could have no "
        "step; use a smaller batch size, larger buckets, or leftovers='merge'"
    )
