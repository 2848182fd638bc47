"""The steps of a stream, and the rows that a rank has of each.

Without buckets all steps are alike. With buckets they follow from the plan's table alone: the
daemon holds no sample ids.
"""

from stoker.order.buckets.turns import BucketTurns
from stoker.protocol.accounts import EpochAccount, epoch_account
from stoker.protocol.size_buckets import Bucket
from stoker.server.work.cuts import RankCut


class RankSteps:
    """The steps of a stream, for one rank.

    Attributes:
        largest: the rows that need the most room in a slot.
        buckets: the plan's buckets; empty without buckets.
    """

    def __init__(self, cuts: tuple[RankCut, ...], steps: int | BucketTurns) -> None:
        """Make the steps of a rank.

        Args:
            cuts: its rows of a batch, for each bucket; without buckets only one.
            steps: how many each epoch has, or the bucket of each step.
        """
        self.largest = max(cuts, key=lambda cut: cut.layout.slot_bytes)
        self.buckets = steps.buckets if isinstance(steps, BucketTurns) else ()
        self._cuts = cuts
        self._steps = steps

    def count(self, epoch: int) -> int:
        """Return the number of steps of an epoch; at least 1."""
        steps = self._steps
        return steps.steps(epoch) if isinstance(steps, BucketTurns) else steps

    def cut(self, epoch: int, step: int) -> RankCut:
        """Return the rank's rows of a step's batch."""
        return self._cuts[self._number(epoch, step)]

    def bucket(self, epoch: int, step: int) -> Bucket | None:
        """Return the bucket of a step; None without buckets."""
        return self.buckets[self._number(epoch, step)] if self.buckets else None

    def account(self, epoch: int) -> EpochAccount | None:
        """Return the account of an epoch; None without buckets."""
        steps = self._steps
        if isinstance(steps, BucketTurns):
            return epoch_account(steps.arithmetic, epoch)
        return None

    def _number(self, epoch: int, step: int) -> int:
        """Return the number of the bucket of a step; 0 without buckets."""
        steps = self._steps
        return steps.turn(epoch, step).bucket if isinstance(steps, BucketTurns) else 0
