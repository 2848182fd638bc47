"""The account of an epoch with buckets: how many samples are delivered, carried on, dropped.

For every bucket `carried_in + samples == delivered + carried_out + dropped`. This is pure
arithmetic over the plan's table without any state, so the client, the daemon and the commands
compute the same account. It counts positions and knows no sample ids; for those see
`stoker.order.bucket_leftovers`.
"""

from dataclasses import dataclass

from stoker.protocol.size_buckets import BucketSteps


@dataclass(frozen=True)
class BucketAccount:
    """One bucket in one epoch, counted in positions.

    Attributes:
        width: width of its outputs in pixels; for sequences, the greatest length.
        height: height of its outputs in pixels; 0 for sequences.
        samples: how many the epoch has of the bucket; a sample counts as often as it comes.
        positions: positions in one of its batches.
        batches: batches that the epoch delivers.
        delivered: positions of these batches that hold a sample.
        padded: positions of these batches that hold none.
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


@dataclass(frozen=True)
class EpochAccount:
    """All buckets in one epoch: `carried_in + samples == delivered + carried_out + dropped`.

    Attributes:
        epoch: the epoch, from 0.
        steps: batches that the epoch delivers.
        samples: rows of the epoch in all buckets: as many as there are samples in buckets. With
            weights, or in a mixture, some samples come more often than others.
        merged: how many of these are in another bucket than the rule chose for them.
        excluded: samples of the dataset that are in no bucket.
        buckets: the account of each bucket.
    """

    epoch: int
    steps: int
    samples: int
    merged: int
    excluded: int
    buckets: tuple[BucketAccount, ...]

    @property
    def delivered(self) -> int:
        """Samples that the epoch delivers, including carried ones."""
        return sum(part.delivered for part in self.buckets)

    @property
    def padded(self) -> int:
        """Positions that hold no sample."""
        return sum(part.padded for part in self.buckets)

    @property
    def carried_in(self) -> int:
        """Samples of earlier epochs that were not delivered before this one."""
        return sum(part.carried_in for part in self.buckets)

    @property
    def carried_out(self) -> int:
        """Samples that are left for later epochs."""
        return sum(part.carried_out for part in self.buckets)

    @property
    def dropped(self) -> int:
        """Samples of the epoch that are never delivered."""
        return sum(part.dropped for part in self.buckets)

    def __str__(self) -> str:
        """Return the account as one readable line."""
        more = {"positions padded": self.padded, "merged": self.merged, "excluded": self.excluded}
        extra = "".join(f"; {count:,} {name}" for name, count in more.items() if count)
        return (
            f"epoch {self.epoch}: {self.steps:,} steps; {self.carried_in:,} carried in + "
            f"{self.samples:,} = {self.delivered:,} delivered + {self.carried_out:,} carried on + "
            f"{self.dropped:,} dropped{extra}"
        )


def epoch_account(
    steps: BucketSteps, epoch: int, *, merged: int = 0, excluded: int = 0
) -> EpochAccount:
    """Return the account of an epoch.

    Args:
        steps: the steps of the plan.
        epoch: the epoch, from 0.
        merged: samples that are in another bucket than the rule chose for them.
        excluded: samples that are in no bucket.
    """
    parts = tuple(_bucket(steps, number, epoch) for number in range(len(steps.buckets)))
    samples = sum(bucket.rows for bucket in steps.buckets)
    return EpochAccount(epoch, steps.steps(epoch), samples, merged, excluded, parts)


def _bucket(steps: BucketSteps, number: int, epoch: int) -> BucketAccount:
    bucket = steps.buckets[number]
    first, stop = (steps.batches_before(number, e) for e in (epoch, epoch + 1))
    seats = (stop - first) * bucket.positions
    carried_in = carried_out = padded = dropped = 0
    if steps.tail == "carry":
        carried_in = epoch * bucket.rows - first * bucket.positions
        carried_out = (epoch + 1) * bucket.rows - stop * bucket.positions
    else:
        padded = max(seats - bucket.rows, 0)
        dropped = max(bucket.rows - seats, 0)
    return BucketAccount(
        width=bucket.width,
        height=bucket.height,
        samples=bucket.rows,
        positions=bucket.positions,
        batches=stop - first,
        delivered=seats - padded,
        padded=padded,
        carried_in=carried_in,
        carried_out=carried_out,
        dropped=dropped,
    )
