"""The steps of a loop as a batch sampler, for tools that make a torch DataLoader of a loader.

Accelerate's `skip_first_batches` reads `dataset`, `batch_sampler` and `collate_fn` of what it is
given and makes a DataLoader of them that leaves out the first items of the sampler. Each item here
is one step; the dataset returns that step's batch, and nothing is computed for steps left out.
Runs in the process of the loader, since its `num_workers` is 0.
"""

from collections.abc import Callable, Iterator
from typing import Any

from stoker.client.epoch_iterator import EpochIterator
from stoker.protocol.errors import ClosedError


class StepItem:
    """One step of a loop; `loader.dataset[step]` is its batch."""

    __slots__ = ("_loop", "_number")

    def __init__(self, loop: "Loop", number: int) -> None:
        self._loop = loop
        self._number = number

    def batch(self) -> Any:
        """Return the batch; steps of the loop before it that were not asked for are skipped.

        Raises:
            ClosedError: the loop is over, or past this step.
        """
        return self._loop.batch(self._number)


class Loop:
    """One loop over an epoch, of which some steps may be left out."""

    def __init__(self, batches: EpochIterator[Any], skip: Callable[[int], None]) -> None:
        self._batches = batches
        self._skip = skip
        self._next = 0

    def batch(self, number: int) -> Any:
        """Return the batch of a step, counted from the first one of the loop."""
        if number > self._next:
            self._batches.begin()
            self._skip(number - self._next)
        elif number < self._next:
            raise ClosedError(f"step {number} of this loop was delivered or skipped before")
        self._next = number + 1
        try:
            return next(self._batches)
        except StopIteration:
            raise ClosedError(f"the epoch ended before step {number} of this loop") from None


class EpochSampler:
    """The sampler that tools call before an epoch: `loader.sampler.set_epoch(epoch)`."""

    def __init__(self, set_epoch: Callable[[int], None]) -> None:
        self.set_epoch = set_epoch


class Steps:
    """A batch sampler whose batches are steps: `[step]`, one list for each step of a loop."""

    sampler = None

    def __init__(
        self,
        count: Callable[[], int],
        iterate: Callable[[], EpochIterator[Any]],
        skip: Callable[[int], None],
        set_epoch: Callable[[int], None],
        *,
        batch_size: int,
        drop_last: bool,
    ) -> None:
        """Take functions of the loader.

        Args:
            count: the number of steps of the next loop.
            iterate: the iterator of a loop.
            skip: leaves out steps of the running loop.
            set_epoch: makes the next loop start an epoch. The Trainer of transformers calls it in a
                resumed epoch, for which it makes a DataLoader by `skip_first_batches`.
            batch_size: the loader's.
            drop_last: whether an incomplete batch is left out.
        """
        self._count = count
        self._iterate = iterate
        self._skip = skip
        self.set_epoch = set_epoch
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __len__(self) -> int:
        """Return the number of steps of the next loop."""
        return self._count()

    def __iter__(self) -> Iterator[list[StepItem]]:
        count = self._count()
        loop = Loop(self._iterate(), self._skip)
        return ([StepItem(loop, number)] for number in range(count))


def only(items: list[Any]) -> Any:
    """Return the only item of a list: the batch of a step."""
    (item,) = items
    return item
