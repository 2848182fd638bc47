"""What became of every sample in an epoch: delivered, carried, dropped; and how well it fits.

For every bucket `carried_in + samples == delivered + carried_out + dropped`. Ids are computed when
asked for; nothing is kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stoker.order.buckets.order import BucketOrder
from stoker.order.buckets.plan import BucketPlan, Sizes
from stoker.order.stream import Ids

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BucketAccount:
    """An epoch of one bucket, counted in positions.

    Attributes:
        width: of its outputs in pixels.
        height: of its outputs in pixels.
        samples: samples that it has.
        positions: positions in one of its batches.
        batches: batches that the epoch delivers.
        delivered: positions of these that hold a sample.
        padded: positions of these that hold none.
        carried_in: samples of earlier epochs that were not delivered before this one.
        carried_out: samples that are left for later epochs.
        dropped: samples that no epoch delivers.
    """

    width: int
    height: int
    samples: int
    positions: int
    batches: int
    delivered: int
    padded: int
    carried_in: int
    carried_out: int
    dropped: int


def account(order: BucketOrder, epoch: int) -> tuple[BucketAccount, ...]:
    """Return the account of an epoch, bucket by bucket."""
    made = []
    for number, bucket in enumerate(order.plan.buckets):
        first, stop = (order.turns.batches_before(number, e) for e in (epoch, epoch + 1))
        seats = (stop - first) * bucket.positions
        carried_in = carried_out = padded = dropped = 0
        if order.turns.tail == "carry":
            carried_in = epoch * bucket.samples - first * bucket.positions
            carried_out = (epoch + 1) * bucket.samples - stop * bucket.positions
        else:
            padded = max(seats - bucket.samples, 0)
            dropped = max(bucket.samples - seats, 0)
        made.append(
            BucketAccount(
                width=bucket.width,
                height=bucket.height,
                samples=bucket.samples,
                positions=bucket.positions,
                batches=stop - first,
                delivered=seats - padded,
                padded=padded,
                carried_in=carried_in,
                carried_out=carried_out,
                dropped=dropped,
            )
        )
    return tuple(made)


def carried_ids(order: BucketOrder, epoch: int) -> Ids:
    """Return the ids of the samples that an epoch leaves for later ones, with repetition.

    A bucket that needs several epochs for a batch carries a sample once for each of them.
    """
    return _collect(order, epoch, "carry")


def dropped_ids(order: BucketOrder, epoch: int) -> Ids:
    """Return the ids of the samples of an epoch that are never delivered, ascending."""
    return np.sort(_collect(order, epoch, "drop"))


def _collect(order: BucketOrder, epoch: int, tail: str) -> Ids:
    found = [np.empty(0, np.int64)]
    if order.turns.tail == tail:
        found += [order.left_over(bucket, epoch) for bucket in range(len(order.plan.buckets))]
    return np.concatenate(found)


@dataclass(frozen=True)
class Fit:
    """How the images of one bucket fit; floats, for people.

    Attributes:
        mean_loss: mean part of an image that the crop to the bucket cuts off.
        worst_loss: greatest such part.
        mean_scale: mean factor by which sides grow, below 1 where images are made smaller.
        upscaled: images that are made larger.
        merged: images that the rule gave another size.
    """

    mean_loss: float
    worst_loss: float
    mean_scale: float
    upscaled: int
    merged: int


def losses(widths: Ids, heights: Ids, width: int, height: int) -> tuple[Floats, Floats]:
    """Return (part cut off, factor of the sides) of images that are fitted to one size."""
    across, down = width / widths, height / heights
    scale = np.maximum(across, down)
    return 1 - np.minimum(across, down) / scale, scale


def fits(plan: BucketPlan, sizes: Sizes) -> Iterator[Fit]:
    """Yield the fit of each bucket; `sizes` are the widths and heights of all images, by id."""
    widths, heights = sizes
    for number, bucket in enumerate(plan.buckets):
        ids = plan.ids(number)
        loss, scale = losses(widths[ids], heights[ids], bucket.width, bucket.height)
        own = plan.sizes.index((bucket.width, bucket.height))
        yield Fit(
            float(loss.mean()),
            float(loss.max()),
            float(scale.mean()),
            int((scale > 1).sum()),
            int((plan.own[ids] != own).sum()),
        )
