"""From a dataset's schema to the states that a pipeline begins with."""

from stoker.dataset import Dataset
from stoker.ops.contract import State


def field_states(dataset: Dataset) -> dict[str, State]:
    """Return the state of every field of a dataset, by name."""
    return {
        field.name: State(field.kind, field.dtype, tuple(field.shape), tuple(field.bound))
        for field in dataset.schema.fields
    }
