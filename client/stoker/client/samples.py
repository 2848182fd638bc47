"""`loader.dataset`: the samples of a stream, one at a time, as they are stored."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from stoker.client.steps import StepItem
from stoker.protocol.errors import UsageError
from stoker.protocol.replay import Replay, ReplayValue

LABEL: Final = "label"


class Samples:
    """A sequence of the dataset's samples; `samples[id]` is a dict of decoded fields.

    It has the fields that the pipeline reads. Each access asks the daemon, so use it to look at
    samples, not to train.
    """

    def __init__(
        self,
        count: int,
        fingerprint: str,
        classes: Mapping[str, Sequence[str]],
        replay: Callable[[int], Replay],
    ) -> None:
        self._count = count
        self._classes = classes
        self._replay = replay
        self.fingerprint = fingerprint

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes 0, 1, ...: of the field `label`, else of the only field with names.

        Raises:
            UsageError: no field has names, or several have; `classes_of` names the field.
        """
        if LABEL in self._classes or len(self._classes) != 1:
            return self.classes_of(LABEL)
        return self.classes_of(*self._classes)

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Name of a class -> its number, for the same field as `classes`."""
        return {name: number for number, name in enumerate(self.classes)}

    def classes_of(self, field: str) -> tuple[str, ...]:
        """Return the names of the classes 0, 1, ... of a label, a mask, or labels of boxes.

        Args:
            field: name of a field of the dataset.

        Raises:
            UsageError: the field has none.
        """
        if field not in self._classes:
            others = ", ".join(map(repr, self._classes))
            raise UsageError(
                f"loader.dataset: no classes are known for a field {field!r}"
                + (f"; use classes_of(field) with {others}" if others else "; no field has names")
            )
        return tuple(self._classes[field])

    def __len__(self) -> int:
        """Return the number of samples, excluded ones too."""
        return self._count

    def __getitem__(self, sample_id: int | StepItem) -> Any:
        """Return a sample by its id, a dict of arrays; negative ids count from the end.

        For an item of `loader.batch_sampler`, return that step's batch.

        Raises:
            IndexError: there is no such sample.
            UsageError: it is not an integer.
        """
        if isinstance(sample_id, StepItem):
            return sample_id.batch()
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
