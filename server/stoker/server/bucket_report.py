"""What buckets make of a dataset, as numbers: sizes, fit, and what becomes of each epoch's samples.

For people and for programs, before any training; nothing here decides a byte of a stream.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np

from stoker.dataset import Dataset
from stoker.order.buckets.account import (
    BucketAccount,
    Fit,
    account,
    carried_ids,
    dropped_ids,
    fits,
)
from stoker.order.buckets.order import BucketOrder
from stoker.order.buckets.plan import make_plan
from stoker.protocol.buckets import Buckets
from stoker.protocol.spec import OrderSpec, StreamSpec

LARGE_LOSS: Final = 0.15
"""Part of an image whose loss is worth a word."""


@dataclasses.dataclass(frozen=True)
class ReportRow:
    """One bucket: its size in pixels, its images, the positions of its batches, how images fit."""

    width: int
    height: int
    samples: int
    positions: int
    fit: Fit


@dataclasses.dataclass(frozen=True)
class Epoch:
    """One epoch, summed over buckets, and the ids of those that it did not deliver."""

    epoch: int
    steps: int
    delivered: int
    carried_in: int
    carried: tuple[int, ...]
    dropped: tuple[int, ...]
    parts: tuple[BucketAccount, ...]


@dataclasses.dataclass(frozen=True)
class Report:
    """The buckets of a dataset.

    Attributes:
        request: what was asked for.
        samples: images of the dataset.
        digest: of the plan.
        rows: the buckets, fullest first.
        merged: ids that are not in the bucket that the rule gave them.
        epochs: accounts of the first epochs.
    """

    request: Buckets
    samples: int
    digest: str
    rows: tuple[ReportRow, ...]
    merged: tuple[int, ...]
    epochs: tuple[Epoch, ...]

    @property
    def mean_loss(self) -> float:
        """Mean part of an image that is cut off."""
        return sum(row.samples * row.fit.mean_loss for row in self.rows) / self.samples

    def lines(self) -> Iterator[str]:
        """Yield the account for people."""
        upscaled = sum(row.fit.upscaled for row in self.rows)
        yield (
            f"cut off: {self.mean_loss:.1%} of an image on average; made larger: {upscaled:,} of "
            f"{self.samples:,}; merged: {len(self.merged):,}"
        )
        for found in self.epochs:
            yield (
                f"epoch {found.epoch}: {found.steps:,} steps; {found.carried_in:,} carried in + "
                f"{self.samples:,} = {found.delivered:,} delivered + {len(found.carried):,} "
                f"carried on + {len(found.dropped):,} dropped"
            )

    def to_data(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "request": msgspec.to_builtins(self.request),
            "digest": self.digest,
            "samples": self.samples,
            "mean_loss": self.mean_loss,
            "buckets": [dataclasses.asdict(row) for row in self.rows],
            "merged": list(self.merged),
            "epochs": [dataclasses.asdict(epoch) for epoch in self.epochs],
        }


def make_report(
    dataset: Dataset,
    request: Buckets,
    batch_size: int,
    seed: int = 0,
    *,
    shuffle: bool = True,
    epochs: int = 3,
) -> Report:
    """Plan the buckets of a dataset, and account for its first epochs.

    Raises:
        UnknownNameError: the dataset has no such field.
        UsageError: there is no plan; the message says why.
    """
    blocks = list(dataset.sizes(request.field))
    plan = make_plan(blocks, request, batch_size)
    sizes = tuple(np.concatenate(sides) for sides in zip(*blocks, strict=True))
    rows = [
        ReportRow(bucket.width, bucket.height, bucket.samples, bucket.positions, fit)
        for bucket, fit in zip(plan.buckets, fits(plan, (sizes[0], sizes[1])), strict=True)
    ]
    spec = StreamSpec(
        dataset=dataset.fingerprint,
        dataset_rows=len(dataset),
        pipeline="0" * 32,  # orders nothing
        batch_size=batch_size,
        seed=seed,
        order=OrderSpec(shuffle=shuffle),
        buckets=plan.digest,
    )
    order = BucketOrder(spec, plan)
    return Report(
        request,
        len(dataset),
        plan.digest,
        tuple(sorted(rows, key=lambda row: -row.samples)),
        tuple(plan.merged().tolist()),
        tuple(_epoch(order, epoch) for epoch in range(epochs)),
    )


def warnings(report: Report) -> Iterator[str]:
    """Yield what is worth a word before a training."""
    for row in report.rows:
        name = f"{row.width}x{row.height}"
        if row.samples < row.positions and report.request.leftovers == "drop":
            yield f"warning: {name} fills no batch: its {row.samples} images are never delivered"
        elif row.samples < row.positions:
            epochs = -(-row.positions // row.samples)
            yield (
                f"warning: {name} is under-filled: its {row.samples} images fill a batch of "
                f"{row.positions} once in {epochs} epochs"
            )
        if row.fit.mean_loss > LARGE_LOSS:
            yield f"warning: {name} cuts off {row.fit.mean_loss:.0%} of an image on average"


def _epoch(order: BucketOrder, epoch: int) -> Epoch:
    parts = account(order, epoch)
    return Epoch(
        epoch,
        order.steps(epoch),
        sum(part.delivered for part in parts),
        sum(part.carried_in for part in parts),
        tuple(carried_ids(order, epoch).tolist()),
        tuple(dropped_ids(order, epoch).tolist()),
        parts,
    )
