"""The first step of a field's pipeline: from rows of a dataset to a batch in memory.

A reading fills part of a batch; several threads fill parts of one batch at a time, each with tools
of its own. Pictures that an op crops or resizes are computed by a Stoker pipeline of that one op.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from stoker.compat.ffcv.pipeline.state import State
from stoker.compat.ffcv.step import Rows
from stoker.dataset import Dataset
from stoker.pipeline import Engine, Row, pipeline
from stoker.pipeline.executor import compile_plan
from stoker.pipeline.plan import bind
from stoker.pipeline.values import Sample
from stoker.server.rows import SampleReader
from stoker.server.states import field_states


class Reading(Protocol):
    """Fills batches of one field.

    Attributes:
        state: of one row.
    """

    state: State

    def fill(self, rows: Rows, low: int, high: int, out: np.ndarray) -> None:
        """Write the rows [low, high) of a batch to `out`, (B, *state.shape)."""
        ...


class StoredReading:
    """Values that are copied as they are stored; see `Reading`."""

    def __init__(self, dataset: Dataset, field: str, shape: tuple[int, ...], dtype: str) -> None:
        self.state = array_state(shape, dtype)
        self._dataset = dataset
        self._field = field

    def fill(self, rows: Rows, low: int, high: int, out: np.ndarray) -> None:
        """Write rows; see `Reading`."""
        read, field = self._dataset.read, self._field
        for place in range(low, high):
            out[place] = read(field, int(rows.ids[place]))


class BytesReading:
    """Bytes of different lengths, zeros after their end; see `Reading`."""

    def __init__(self, dataset: Dataset, field: str, bound: int) -> None:
        self.state = array_state((bound,), "uint8")
        self._dataset = dataset
        self._field = field

    def fill(self, rows: Rows, low: int, high: int, out: np.ndarray) -> None:
        """Write rows; see `Reading`."""
        for place in range(low, high):
            data = np.frombuffer(self._dataset.read(self._field, int(rows.ids[place])), np.uint8)
            out[place, : len(data)] = data
            out[place, len(data) :] = 0


class PipelineReading:
    """Pictures as a Stoker pipeline makes them; see `Reading`."""

    def __init__(
        self, dataset: Dataset, field: str, define: Callable[[Any], Any], name: str
    ) -> None:
        """Build the pipeline.

        Raises:
            BuildError: it does not fit the field.
        """

        def one(sample: Sample) -> Mapping[str, Any]:
            return {"out": define(sample[field])}

        one.__name__ = name
        self._plan = bind(pipeline(one).graph(), field_states(dataset))
        output = self._plan.outputs[0]
        self.state = array_state(output.shape, output.dtype)
        self._dataset = dataset
        self._tools = threading.local()

    def fill(self, rows: Rows, low: int, high: int, out: np.ndarray) -> None:
        """Write rows; see `Reading`."""
        engine, reader = self._own()
        for place in range(low, high):
            number = int(rows.ids[place])
            engine.run(Row(rows.seed, number, rows.epoch), reader.read(number), [out[place]])

    def _own(self) -> tuple[Engine, SampleReader]:
        found: tuple[Engine, SampleReader] | None = getattr(self._tools, "found", None)
        if found is None:
            reader = SampleReader(self._dataset, self._plan.fields)
            found = self._tools.found = (compile_plan(self._plan), reader)
        return found


def array_state(shape: tuple[int, ...], dtype: str) -> State:
    """Return the state of NumPy arrays."""
    return State(jit_mode=True, device="cpu", shape=tuple(shape), dtype=np.dtype(dtype))
