"""One loop over one epoch."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class EpochIterator(Generic[Item]):
    """The iterator of a loop: batches until the epoch ends, then StopIteration every time.

    The epoch begins at the first `next()`, so an iterator that is not read uses up no epoch.
    """

    def __init__(
        self,
        begin: Callable[[], int],
        following: Callable[[int], Item | None],
        at_end: Callable[[], None],
    ) -> None:
        """Take three functions of the loader.

        Args:
            begin: begins the epoch and returns the number of the turn.
            following: takes that number and returns the next batch, or None at the end.
            at_end: called once at the end.
        """
        self._begin = begin
        self._following = following
        self._at_end = at_end
        self._turn: int | None = None
        self._ended = False

    def __iter__(self) -> Iterator[Item]:
        return self

    def begin(self) -> int:
        """Begin the epoch unless it has begun; return the number of the turn."""
        if self._turn is None:
            self._turn = self._begin()
        return self._turn

    def __next__(self) -> Item:
        turn = self.begin()
        batch = None if self._ended else self._following(turn)
        if batch is None:
            if not self._ended:
                self._ended = True
                self._at_end()
            raise StopIteration
        return batch
