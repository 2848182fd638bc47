"""The course of a group: how many steps each epoch has, and the group's part of each batch.

Without buckets both are constant. With buckets they follow from the plan's table alone: the daemon
holds no sample ids.
"""

from typing import Protocol

from stoker.order.buckets.turns import BucketTurns
from stoker.protocol.accounts import EpochAccount, epoch_account
from stoker.protocol.buckets import Bucket
from stoker.server.work.cuts import RankCut


class Course(Protocol):
    """The steps of a stream, for one rank.

    Attributes:
        largest: the part that needs the most room in a slot.
        buckets: the plan's buckets; empty without buckets.
    """

    largest: RankCut
    buckets: tuple[Bucket, ...]

    def steps(self, epoch: int) -> int:
        """Return the number of steps of an epoch; at least 1."""
        ...

    def cut(self, epoch: int, step: int) -> RankCut:
        """Return the rank's part of a step's batch."""
        ...

    def bucket(self, epoch: int, step: int) -> Bucket | None:
        """Return the bucket of a step, None without buckets."""
        ...

    def account(self, epoch: int) -> EpochAccount | None:
        """Return the account of an epoch; None without buckets."""
        ...


class PlainCourse:
    """A course in which all steps are alike."""

    def __init__(self, steps: int, cut: RankCut) -> None:
        self.largest = cut
        self.buckets: tuple[Bucket, ...] = ()
        self._steps = steps

    def steps(self, epoch: int) -> int:
        """Return the number of steps of every epoch."""
        return self._steps

    def cut(self, epoch: int, step: int) -> RankCut:
        """Return the rank's part of every batch."""
        return self.largest

    def bucket(self, epoch: int, step: int) -> Bucket | None:
        """Return None."""
        return None

    def account(self, epoch: int) -> EpochAccount | None:
        """Return None."""
        return None


class BucketCourse:
    """A course in which each step delivers a batch of one bucket."""

    def __init__(self, turns: BucketTurns, cuts: tuple[RankCut, ...]) -> None:
        self.largest = max(cuts, key=lambda cut: cut.layout.slot_bytes)
        self.buckets = turns.buckets
        self._turns = turns
        self._cuts = cuts

    def steps(self, epoch: int) -> int:
        """Return the number of steps of an epoch."""
        return self._turns.steps(epoch)

    def cut(self, epoch: int, step: int) -> RankCut:
        """Return the rank's part of a step's batch."""
        return self._cuts[self._turns.turn(epoch, step).bucket]

    def bucket(self, epoch: int, step: int) -> Bucket | None:
        """Return the bucket of a step."""
        return self.buckets[self._turns.turn(epoch, step).bucket]

    def account(self, epoch: int) -> EpochAccount | None:
        """Return the account of an epoch."""
        return epoch_account(self._turns.arithmetic, epoch)
