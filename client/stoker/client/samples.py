"""`loader.dataset`: the samples of a stream, one at a time, as they are stored."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stoker.protocol.errors import UsageError
from stoker.protocol.replay import Replay, ReplayValue


class Samples:
    """A sequence of the dataset's samples; `samples[id]` is a dict of decoded fields.

    It has the fields that the pipeline reads. Each access asks the daemon, so use it to look at
    samples, not to train.
    """

    def __init__(self, count: int, fingerprint: str, replay: Callable[[int], Replay]) -> None:
        self._count = count
        self._replay = replay
        self.fingerprint = fingerprint

    def __len__(self) -> int:
        """Return the number of samples, excluded ones too."""
        return self._count

    def __getitem__(self, sample_id: int) -> dict[str, np.ndarray]:
        """Return a sample by its id; negative ids count from the end.

        Raises:
            IndexError: there is no such sample.
            UsageError: it is not an integer.
        """
        if isinstance(sample_id, bool) or not isinstance(sample_id, int | np.integer):
            raise UsageError(f"loader.dataset: expected a sample id, got {sample_id!r}")
        number = int(sample_id)
        if not -self._count <= number < self._count:
            raise IndexError(f"loader.dataset[{number}]: the dataset has {self._count} samples")
        return by_name(self._replay(number % self._count).fields)

    def __repr__(self) -> str:
        return f"Samples({self._count} samples, {self.fingerprint})"


def by_name(values: tuple[ReplayValue, ...]) -> dict[str, Any]:
    """Return recorded values by name."""
    return {value.name: value.array for value in values}
