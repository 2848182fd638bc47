"""The node "cut": which rows a step delivers, where all batches are alike (contract order v1).

`EvenCut` is that of a stream without buckets; `stoker.order.buckets.turns` has the other one, which
answers the same questions. Pure arithmetic; the daemon uses it, which holds no ids.
"""

from typing import NamedTuple, Protocol

from stoker.order.rank_rows import steps_per_epoch
from stoker.protocol.errors import UsageError
from stoker.protocol.size_buckets import Tail
from stoker.protocol.spec import StreamSpec


class Turn(NamedTuple):
    """A batch: the number of its bucket, and its number among all batches of that bucket."""

    bucket: int
    number: int


class StepCut(Protocol):
    """The batches of a stream. Without buckets, there is one, of number 0.

    Attributes:
        tail: what happens to an incomplete batch; "carry": the next epoch completes it.
    """

    tail: Tail

    def steps(self, epoch: int) -> int:
        """Return the number of batches that an epoch delivers."""
        ...

    def steps_before(self, epoch: int) -> int:
        """Return how many steps the stream has before an epoch."""
        ...

    def positions(self, bucket: int) -> int:
        """Return the number of positions in a global batch of a bucket."""
        ...

    def batches_before(self, bucket: int, epoch: int) -> int:
        """Return how many batches a bucket delivers before an epoch."""
        ...

    def turn(self, epoch: int, step: int) -> Turn:
        """Return which batch a step delivers.

        Raises:
            UsageError: the epoch has no such step.
        """
        ...

    def step_of(self, epoch: int, turn: Turn) -> int:
        """Return the step of a batch that an epoch delivers."""
        ...


class EvenCut:
    """Every step delivers the next `batch_size` positions of its epoch; see `StepCut`."""

    def __init__(self, spec: StreamSpec) -> None:
        """Cut the epochs of a spec without buckets.

        Raises:
            UsageError: an epoch has no step.
        """
        self.tail: Tail = "drop" if spec.mix else spec.tail
        self._steps = steps_per_epoch(spec)
        self._size = spec.batch_size

    def steps(self, epoch: int) -> int:
        """Return the number of batches that every epoch delivers."""
        return self._steps

    def steps_before(self, epoch: int) -> int:
        """Return how many steps the stream has before an epoch."""
        return epoch * self._steps

    def positions(self, bucket: int) -> int:
        """Return the number of positions in a global batch."""
        return self._size

    def batches_before(self, bucket: int, epoch: int) -> int:
        """Return how many batches there are before an epoch."""
        return epoch * self._steps

    def turn(self, epoch: int, step: int) -> Turn:
        """Return which batch a step delivers.

        Raises:
            UsageError: the epoch has no such step.
        """
        check_step(epoch, step, self._steps)
        return Turn(0, epoch * self._steps + step)

    def step_of(self, epoch: int, turn: Turn) -> int:
        """Return the step of a batch."""
        return turn.number - epoch * self._steps


def check_step(epoch: int, step: int, steps: int) -> None:
    """Check a step of an epoch that has `steps`.

    Raises:
        UsageError: the epoch is negative, or has no such step.
    """
    if epoch < 0:
        raise UsageError(f"epoch: expected one from 0, got {epoch}")
    if not 0 <= step < steps:
        raise UsageError(f"step: expected one from 0 to {steps - 1} in epoch {epoch}, got {step}")
