"""Steps that a stream leaves out on purpose, as ranges by epoch.

A training that diverged is continued from before the loss spike without the batches that led to
it. These steps are part of the cursor, so that every later resume leaves them out too. A step that
is left out keeps its number: the batches after it have the steps and bytes that they always had.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from stoker.protocol.errors import UsageError

MAX_STEP: Final = 2**48


class Skips:
    """Sorted, disjoint ranges of steps of some epochs; immutable."""

    __slots__ = ("_epochs",)

    def __init__(self, ranges: Iterable[tuple[int, int, int]] = ()) -> None:
        """Take ranges (epoch, first step, last step); those that touch become one.

        Raises:
            UsageError: a range is empty, or a number is not from 0 to 2**48.
        """
        epochs: dict[int, list[tuple[int, int]]] = {}
        for epoch, first, last in sorted(ranges):
            if not (0 <= epoch <= MAX_STEP and 0 <= first <= last <= MAX_STEP):
                raise UsageError(
                    f"expected a range of steps with 0 <= first <= last <= {MAX_STEP}, got "
                    f"{first} to {last} of epoch {epoch}"
                )
            known = epochs.setdefault(epoch, [])
            if known and first <= known[-1][1] + 1:
                known[-1] = (known[-1][0], max(last, known[-1][1]))
            else:
                known.append((first, last))
        self._epochs = epochs

    @staticmethod
    def from_data(data: Mapping[str, Iterable[int]]) -> "Skips":
        """Parse the form of a cursor: epoch as text -> [first, last, first, last, ...].

        Raises:
            UsageError: the data is not that, or not in the only form that equal ranges have.
        """
        try:
            ranges = []
            for epoch, numbers in data.items():
                bounds = iter(numbers)
                ranges += [(int(epoch), first, last) for first, last in _pairs(bounds)]
        except ValueError as error:
            raise UsageError(f"expected epochs and pairs of steps: {error}") from None
        made = Skips(ranges)
        if made.to_data() != {epoch: list(numbers) for epoch, numbers in data.items()}:
            raise UsageError(
                f"expected sorted ranges of steps that do not touch, {made.to_data()}, got {data}"
            )
        return made

    def to_data(self) -> dict[str, list[int]]:
        """Return the form of a cursor; see `from_data`."""
        return {
            str(epoch): [step for bounds in ranges for step in bounds]
            for epoch, ranges in self._epochs.items()
        }

    def __or__(self, other: "Skips") -> "Skips":
        return Skips([*self.ranges(), *other.ranges()])

    def __bool__(self) -> bool:
        return bool(self._epochs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Skips) and self._epochs == other._epochs

    def __hash__(self) -> int:
        return hash(tuple(self.ranges()))

    def __str__(self) -> str:
        parts = [
            f"epoch {epoch}: " + ", ".join(_words(first, last) for first, last in ranges)
            for epoch, ranges in self._epochs.items()
        ]
        return "; ".join(parts) or "no steps"

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """Yield (epoch, first step, last step), ascending."""
        for epoch, ranges in self._epochs.items():
            for first, last in ranges:
                yield epoch, first, last

    def since(self, epoch: int) -> "Skips":
        """Return those of that epoch and later ones."""
        return Skips(item for item in self.ranges() if item[0] >= epoch)

    def count(self, epoch: int, begin: int, end: int) -> int:
        """Return how many steps of [begin, end) of an epoch are left out."""
        return sum(
            max(min(last + 1, end) - max(first, begin), 0)
            for first, last in self._epochs.get(epoch, ())
        )

    def past(self, epoch: int, step: int) -> int:
        """Return the first step of an epoch, from `step` on, that is not left out."""
        for first, last in self._epochs.get(epoch, ()):
            if first <= step <= last:
                return last + 1
        return step

    def after(self, epoch: int, step: int, count: int) -> int:
        """Return the step to go on with after `count` more steps that are not left out."""
        while count > 0:
            step = self.past(epoch, step)
            ahead = [first for first, _ in self._epochs.get(epoch, ()) if first > step]
            taken = min(count, min(ahead, default=step + count) - step)
            step, count = step + taken, count - taken
        return step


def _pairs(numbers: Iterator[int]) -> Iterator[tuple[int, int]]:
    for first in numbers:
        last = next(numbers, None)
        if last is None:
            raise ValueError(f"step {first} has no partner")
        yield first, last


def _words(first: int, last: int) -> str:
    return f"step {first}" if first == last else f"steps {first} to {last}"
