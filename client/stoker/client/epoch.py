"""One loop over one epoch."""

from collections.abc import Callable, Iterator

from stoker.client.batch import Batch


class EpochIterator:
    """The iterator of a loop: batches until the epoch ends, then StopIteration every time."""

    def __init__(self, following: Callable[[], Batch | None], at_end: Callable[[], None]) -> None:
        """Take the function that returns the next batch or None, and one to call at the end."""
        self._following = following
        self._at_end = at_end
        self._ended = False

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = self._following()
        if batch is None:
            if not self._ended:
                self._at_end()
            self._ended = True
            raise StopIteration
        return batch
