"""Items that are made on demand from columns of numbers, so that millions of them fit."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from stoker.dataset.format.source_item import Item


class LazyItems(Sequence[Item]):
    """The items of several containers, one container after the other."""

    def __init__(self, counts: Sequence[int]) -> None:
        """Take the number of items in each container."""
        self._ends = np.cumsum([0, *counts])

    @abstractmethod
    def make(self, container: int, number: int) -> Item:
        """Return the item of that number in a container."""

    def __len__(self) -> int:
        """Return the number of items."""
        return int(self._ends[-1])

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        """Return an item by its number."""
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        container = int(np.searchsorted(self._ends, index, side="right")) - 1
        return self.make(container, index - int(self._ends[container]))

    def __iter__(self) -> Iterator[Item]:
        """Yield all items, in order."""
        for container, count in enumerate(np.diff(self._ends).tolist()):
            for number in range(count):
                yield self.make(container, number)
