"""A report on buckets of a dataset: their sizes, the fit, and the samples of each epoch by outcome.

For people and for programs, before any training; nothing here decides a byte of a stream.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np

from stoker.dataset import Dataset
from stoker.order.bucket_leftovers import account, carried_ids, dropped_ids
from stoker.order.buckets.bucket_fit import Fit, Fits, LengthFit, fits, sample_fits
from stoker.order.buckets.bucket_plan import make_plan
from stoker.order.compose import order_of
from stoker.order.stream_order import StreamOrder
from stoker.protocol.accounts import EpochAccount
from stoker.protocol.length_buckets import LengthBuckets, Request
from stoker.protocol.request.stream_request import StreamRequest
from stoker.protocol.size_buckets import Bucket, Buckets
from stoker.protocol.spec import StreamSpec
from stoker.server.rows.chosen import chosen_of, order_spec, resolved
from stoker.server.rows.orders import planned_sizes

LARGE_LOSS: Final = 0.15
"""Part of a sample whose loss is worth a word."""


@dataclasses.dataclass(frozen=True)
class ReportRow:
    """One bucket, and how its samples fit."""

    bucket: Bucket
    fit: Fit | LengthFit


@dataclasses.dataclass(frozen=True)
class EpochReport:
    """One epoch: its account, and the ids of those that it did not deliver."""

    account: EpochAccount
    carried: tuple[int, ...]
    dropped: tuple[int, ...]

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        found = self.account
        return {
            "epoch": found.epoch,
            "steps": found.steps,
            "delivered": found.delivered,
            "carried_in": found.carried_in,
            "padded": found.padded,
            "carried": list(self.carried),
            "dropped": list(self.dropped),
            "parts": [dataclasses.asdict(part) for part in found.buckets],
        }


@dataclasses.dataclass(frozen=True)
class Report:
    """The buckets of a dataset.

    Attributes:
        request: what was asked for.
        samples: samples in buckets.
        digest: of the plan.
        rows: the buckets, in their order.
        fits: how each sample fits.
        merged: ids that are not in the bucket that the rule gave them.
        excluded: ids that are in no bucket.
        epochs: accounts of some epochs.
    """

    request: Request
    samples: int
    digest: str
    rows: tuple[ReportRow, ...]
    fits: Fits
    merged: tuple[int, ...]
    excluded: tuple[int, ...]
    epochs: tuple[EpochReport, ...]

    @property
    def of_images(self) -> bool:
        """True if samples are images; if not, they are sequences."""
        return isinstance(self.request, Buckets)

    @property
    def fullest(self) -> tuple[ReportRow, ...]:
        """The buckets, the fullest first."""
        return tuple(sorted(self.rows, key=lambda row: -row.bucket.samples))

    def lines(self) -> Iterator[str]:
        """Yield the account for people."""
        loss, scale = float(self.fits.loss.mean()), self.fits.scale
        count = f"{self.samples:,}; merged: {len(self.merged):,}; left out: {len(self.excluded):,}"
        if self.of_images:
            larger = int((scale > 1).sum())
            yield f"cut off: {loss:.1%} of an image on average; made larger: {larger:,} of {count}"
        else:
            longer = int((self.fits.loss > 0).sum())
            padding = 1 - self.filled
            yield (
                f"padding: {padding:.1%} of all positions at the buckets' lengths; cut off: "
                f"{loss:.1%} of a sequence on average, of {longer:,} of {count}"
            )
        yield from (str(found.account) for found in self.epochs)

    @property
    def filled(self) -> float:
        """Part of the elements of all rows that samples fill, of sequences."""
        lengths = np.array([row.bucket.width for row in self.rows])[self.fits.bucket]
        return float((self.fits.scale * lengths).sum() / lengths.sum())

    def to_data(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return {
            "request": msgspec.to_builtins(self.request),
            "digest": self.digest,
            "samples": self.samples,
            "mean_loss": float(self.fits.loss.mean()),
            "buckets": [
                {**_bucket_data(row.bucket), "fit": dataclasses.asdict(row.fit)}
                for row in self.rows
            ],
            "fits": {name: found.tolist() for name, found in vars(self.fits).items()},
            "merged": list(self.merged),
            "excluded": list(self.excluded),
            "epochs": [epoch.to_data() for epoch in self.epochs],
        }


def _bucket_data(bucket: Bucket) -> dict[str, int]:
    return {name: getattr(bucket, name) for name in Bucket.__struct_fields__}


def make_report(
    dataset: Dataset,
    stream: StreamRequest,
    epochs: range = range(3),
) -> Report:
    """Plan the buckets of a dataset, and account for some epochs of a stream over it.

    Args:
        dataset: the dataset, open.
        stream: a stream with buckets; its pipeline does not matter.
        epochs: those to account for.

    Raises:
        UnknownNameError: the dataset has no such field or split.
        UsageError: there is no plan; the message says why. Or a list is of another dataset.
    """
    request, wanted = stream.order.buckets, stream.order
    assert request is not None
    chosen = chosen_of(dataset, resolved(dataset, stream.sources[0].selection))
    blocks = list(planned_sizes(dataset, request))
    plan = make_plan(blocks, request, stream.batch.positions, chosen.excluded.ids)
    widths, heights = (np.concatenate(sides) for sides in zip(*blocks, strict=True))
    sizes = (widths, heights)
    spec = StreamSpec(
        dataset=dataset.fingerprint,
        dataset_rows=len(dataset),
        pipeline="0" * 32,  # orders nothing
        batch_size=stream.batch.positions,
        tail=stream.batch.tail,
        seed=stream.draws.seed,
        order=order_spec(
            chosen, shuffle=wanted.shuffle, block=wanted.block or None, seed=wanted.seed
        ),
        exclude=chosen.excluded.digest,
        buckets=plan.digest,
    )
    order = order_of(spec, [chosen], plan=plan)
    return Report(
        request,
        len(plan.members),
        plan.digest,
        tuple(map(ReportRow, plan.buckets, fits(plan, sizes))),
        sample_fits(plan, sizes),
        tuple(plan.merged().tolist()),
        tuple(plan.excluded_ids().tolist()),
        tuple(_epoch(order, epoch) for epoch in epochs),
    )


def warnings(report: Report) -> Iterator[str]:
    """Yield what is worth a word before a training."""
    what = "image" if report.of_images else "sequence"
    for row in report.fullest:
        bucket, loss = row.bucket, row.fit.mean_loss
        if bucket.samples < bucket.positions and report.request.leftovers == "drop":
            yield (
                f"warning: {bucket.name} fills no batch: its {bucket.samples} {what}s are never "
                "delivered"
            )
        elif bucket.samples < bucket.positions:
            epochs = -(-bucket.positions // bucket.samples)
            yield (
                f"warning: {bucket.name} is under-filled: its {bucket.samples} {what}s fill a batch"
                f" of {bucket.positions} once in {epochs} epochs"
            )
        if loss > LARGE_LOSS:
            yield f"warning: {bucket.name} cuts off {loss:.0%} of {_one(what)} on average"
    dropping = isinstance(report.request, LengthBuckets) and report.request.longer == "drop"
    if report.excluded and dropping:
        count = len(report.excluded)
        yield f"warning: {count:,} sequences are longer than every bucket, or excluded: in no epoch"


def _one(what: str) -> str:
    return f"an {what}" if what == "image" else f"a {what}"


def _epoch(order: StreamOrder, epoch: int) -> EpochReport:
    return EpochReport(
        account(order, epoch),
        tuple(carried_ids(order, epoch).tolist()),
        tuple(dropped_ids(order, epoch).tolist()),
    )
