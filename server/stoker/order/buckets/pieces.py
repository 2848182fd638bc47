"""Shares the rows of an epoch among the buckets, and in each bucket among datasets.

An epoch has as many rows as there are samples in buckets. Without weights and mixtures each sample
comes once. With weights a bucket gets its part by the sum of its weights, and in it each sample
comes by its own. In a mixture each dataset first gets its part of all rows by its share; its
buckets share that by their numbers of samples, or the sums of their weights. So every bucket has
the same number of rows in every epoch. All parts are by the largest remainder, but none is empty.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stoker.order.apportion import apportion
from stoker.order.buckets.bucket_plan import BucketPlan, check_fills
from stoker.order.deck import Ids
from stoker.order.selected import Selected
from stoker.protocol.errors import UsageError
from stoker.protocol.size_buckets import Bucket


class Piece(NamedTuple):
    """The samples of one dataset in one bucket.

    Attributes:
        dataset: its number.
        ids: the samples, ascending.
        weights: (samples,) int64 integer weights; None if each comes once.
        marks: rows in an epoch of these samples.
        rows: rows that they have in an epoch of the bucket.
    """

    dataset: int
    ids: NDArray[np.integer[Any]]
    weights: Ids | None
    marks: int
    rows: int


def pieces_of(
    plan: BucketPlan,
    selections: Sequence[Selected],
    shares: Sequence[int] | None,
    names: Sequence[str] = (),
) -> list[list[Piece]]:
    """Return the pieces of each bucket, by dataset.

    Args:
        plan: of all datasets of the stream.
        selections: what is taken of each.
        shares: of the datasets of a mixture; None: there is one dataset.
        names: of the datasets, for errors; empty: their numbers are shown.

    Raises:
        UsageError: a dataset of a mixture has fewer rows in an epoch than buckets, or no bucket.
    """
    firsts = np.cumsum([0, *(selection.rows for selection in selections)])
    cuts = [np.searchsorted(plan.ids(k), firsts) for k in range(len(plan.buckets))]
    counts = [len(plan.members)]
    if shares is not None:
        counts = apportion(counts[0], shares)
    found: list[list[Piece]] = [[] for _ in plan.buckets]
    for dataset, (selection, count) in enumerate(zip(selections, counts, strict=True)):
        known = repr(names[dataset]) if names else dataset
        parts = [
            (bucket, plan.ids(bucket)[cut[dataset] : cut[dataset + 1]])
            for bucket, cut in enumerate(cuts)
            if cut[dataset] < cut[dataset + 1]
        ]
        if shares is not None and not parts:
            raise UsageError(
                f"mix: dataset {known} has no sample in any bucket, because all of them are left "
                "out: use larger bounds, or take the dataset out of the mixture"
            )
        if count < len(parts):
            raise UsageError(
                f"mix: dataset {known} has {count} rows in an epoch, by its ratio, and samples in "
                f"{len(parts)} buckets; expected at least one row for each: raise its ratio, or "
                "use fewer buckets"
            )
        made = _pieces(dataset, selection, int(firsts[dataset]), [ids for _, ids in parts], count)
        for (bucket, _), piece in zip(parts, made, strict=True):
            found[bucket].append(piece)
    return found


def with_rows(plan: BucketPlan, pieces: Sequence[Sequence[Piece]]) -> tuple[Bucket, ...]:
    """Return the buckets of a plan with the rows that each epoch has of them.

    Raises:
        UsageError: an epoch could have no step.
    """
    buckets = tuple(
        msgspec.structs.replace(bucket, rows=sum(piece.rows for piece in own))
        for bucket, own in zip(plan.buckets, pieces, strict=True)
    )
    check_fills(buckets)
    return buckets


def _pieces(
    dataset: int, selection: Selected, first: int, parts: list[NDArray[Any]], count: int
) -> list[Piece]:
    """Return the pieces of a dataset that has `count` rows in an epoch of the stream."""
    sums = marks = [len(ids) for ids in parts]
    weights: list[Ids | None] = [None] * len(parts)
    if selection.weighting is not None and parts:
        remaining = selection.remaining(first)
        found = [selection.weighting.whole[remaining.places(ids)] for ids in parts]
        sums = [int(one.sum()) for one in found]
        marks = apportion(sum(marks), sums, least=1)
        weights = [*found]
    rows = marks if count == sum(marks) else apportion(count, sums, least=1)
    return [Piece(dataset, *piece) for piece in zip(parts, weights, marks, rows, strict=True)]
