"""`loader.dataset`: the samples of a stream, one at a time, as they are stored.

As in torch's `Subset`, places count the samples that `exclude`, `subset` and weights of 0 leave,
by ascending id. Without them a place is an id.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from stoker.client.batch_sampler import StepItem
from stoker.client.sample_values import SampleValues
from stoker.protocol.errors import UsageError
from stoker.protocol.replayed_row import Replay, ReplayValue
from stoker.protocol.spec import StreamSpec, as_integer

LABEL: Final = "label"


class SampleSequence:
    """A sequence of the samples that the stream visits; `samples[n]` is a dict of decoded fields.

    It has the fields that the pipeline reads. Each access asks the daemon, so use it to look at
    samples, not to train.
    """

    def __init__(
        self,
        spec: StreamSpec,
        classes: Mapping[str, Sequence[str]],
        read: Callable[[int], Replay],
    ) -> None:
        self._spec = spec
        self._count = spec.epoch_rows
        self._classes = classes
        self._read = read
        self.fingerprint = spec.dataset

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
            UsageError: the field has no classes.
        """
        if field not in self._classes:
            others = ", ".join(map(repr, self._classes))
            raise UsageError(
                f"loader.dataset: no classes are known for a field {field!r}"
                + (f"; use classes_of(field) with {others}" if others else "; no field has names")
            )
        return tuple(self._classes[field])

    def __len__(self) -> int:
        """Return the number of samples that the stream visits."""
        return self._count

    def __getitem__(self, place: int | StepItem) -> Any:
        """Return a sample by its place, a dict of arrays; negative places count from the end.

        For an item of `loader.batch_sampler`, return that step's batch.

        Raises:
            IndexError: there is no such sample.
            UsageError: it is not an integer.
        """
        if isinstance(place, StepItem):
            return place.batch()
        number = as_integer(place)
        if number is None:
            raise UsageError(f"loader.dataset: expected the place of a sample, got {place!r}")
        if not -self._count <= number < self._count:
            raise IndexError(f"loader.dataset[{number}]: expected a place in {self!r}")
        found = number % self._count
        return by_name(self._read(found).fields, f"Sample at place {found}, as it is stored")

    def __repr__(self) -> str:
        return f"Samples({samples_in_words(self._spec)})"


def samples_in_words(spec: StreamSpec) -> str:
    """Return how many samples of which dataset a stream visits."""
    some = f" of the {spec.dataset_rows}" if spec.excluded_rows else ""
    return f"{spec.epoch_rows}{some} samples of {spec.dataset}"


def by_name(values: tuple[ReplayValue, ...], title: str) -> SampleValues:
    """Return recorded values by name."""
    return SampleValues({value.name: value.array for value in values}, title)
