"""The fit of samples to their buckets: cut off, enlarged, or padded. Floats, for reports only.

Nothing here decides a byte of a stream.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stoker.order.buckets.assign import Sizes, Whole
from stoker.order.buckets.bucket_plan import BucketPlan, Ids

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fit:
    """The fit of the images of one bucket.

    Attributes:
        mean_loss: mean part of an image that the crop to the bucket cuts off.
        worst_loss: greatest such part.
        mean_scale: mean factor by which sides grow, below 1 if images are scaled down.
        upscaled: number of images that are enlarged.
        merged: number of images that have another size by the rule.
    """

    mean_loss: float
    worst_loss: float
    mean_scale: float
    upscaled: int
    merged: int


@dataclass(frozen=True)
class LengthFit:
    """The fit of the sequences of one bucket.

    Attributes:
        mean_loss: mean part of a sequence that is beyond the bucket's length.
        worst_loss: greatest such part.
        mean_padding: mean part of the bucket's length that is padding.
        longer: number of sequences that are longer than the bucket.
        merged: number of sequences that have another length by the rule.
    """

    mean_loss: float
    worst_loss: float
    mean_padding: float
    longer: int
    merged: int


@dataclass(frozen=True)
class Fits:
    """The fit of every sample to its bucket.

    Attributes:
        ids: sample ids, ascending: all except those that are left out.
        bucket: number of the bucket of each.
        loss: part of each that is cut off, 0 to 1.
        scale: for images the factor by which sides grow; for sequences the part of the bucket's
            length that they fill.
    """

    ids: Ids
    bucket: Ids
    loss: Floats
    scale: Floats


def losses(widths: Whole, heights: Whole, width: int, height: int) -> tuple[Floats, Floats]:
    """Return (part cut off, factor of the sides) of images that are fit to one size."""
    across, down = width / widths, height / heights
    scale = np.maximum(across, down)
    return 1 - np.minimum(across, down) / scale, scale


def length_losses(lengths: Whole, length: int) -> tuple[Floats, Floats]:
    """Return (part cut off, part of the length that is filled) of sequences in one bucket."""
    kept = np.minimum(lengths, length)
    return (lengths - kept) / np.maximum(lengths, 1), kept / length


def sample_fits(plan: BucketPlan, sizes: Sizes) -> Fits:
    """Return how every sample fits.

    Args:
        plan: the plan.
        sizes: widths and heights of all images, by id; for sequences the lengths, twice.
    """
    counts = [bucket.samples for bucket in plan.buckets]
    numbers = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    parts = [_measured(plan, sizes, number) for number in range(len(counts))]
    order = np.argsort(plan.members, kind="stable")
    loss, scale = (np.concatenate(found)[order] for found in zip(*parts, strict=True))
    return Fits(plan.members[order], numbers[order], loss, scale)


def fits(plan: BucketPlan, sizes: Sizes) -> Iterator[Fit | LengthFit]:
    """Yield the fit of each bucket; arguments as for `sample_fits`."""
    for number, bucket in enumerate(plan.buckets):
        ids = plan.ids(number)
        loss, scale = _measured(plan, sizes, number)
        own = plan.sizes.index((bucket.width, bucket.height))
        lost = float(loss.mean()), float(loss.max())
        merged = int((plan.own[ids] != own).sum())
        if bucket.height:
            yield Fit(*lost, float(scale.mean()), int((scale > 1).sum()), merged)
        else:
            yield LengthFit(*lost, float(1 - scale.mean()), int((loss > 0).sum()), merged)


def _measured(plan: BucketPlan, sizes: Sizes, number: int) -> tuple[Floats, Floats]:
    bucket, ids = plan.buckets[number], plan.ids(number)
    widths, heights = sizes
    if bucket.height:
        return losses(widths[ids], heights[ids], bucket.width, bucket.height)
    return length_losses(widths[ids], bucket.width)
