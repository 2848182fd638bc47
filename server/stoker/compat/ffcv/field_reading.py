"""The first step of a field's pipeline: from rows of a dataset to a batch in memory.

A reading fills part of a batch. Several threads fill parts of one batch at the same time, each with
its own tools. Images that an op crops or resizes are computed by a Stoker pipeline of that one op.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from stoker.compat.ffcv.batch_rows import BatchRows
from stoker.compat.ffcv.pipeline.state import State, cpu_device
from stoker.dataset import Dataset
from stoker.dataset.format.manifest import DataFile
from stoker.dataset.reading.mapping import map_file
from stoker.pipeline import Engine, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.planning.planner import bind
from stoker.pipeline.tracing.values import TracedSample
from stoker.protocol.errors import BuildError
from stoker.server.rows.field_states import field_states
from stoker.server.rows.sample_reader import SampleReader


class Reading(Protocol):
    """Fills batches of one field.

    Attributes:
        state: the state of one row.
    """

    state: State

    def fill(self, rows: BatchRows, low: int, high: int, out: np.ndarray) -> None:
        """Write the rows [low, high) of a batch to `out`, (B, *state.shape)."""
        ...


class StoredReading:
    """Values of one size that are copied unchanged, many at a time; see `Reading`."""

    def __init__(self, dataset: Dataset, field: str, shape: tuple[int, ...], dtype: str) -> None:
        """Map the field's column in every file.

        Raises:
            BuildError: the values differ in size.
        """
        self.state = array_state(shape, dtype)
        files = dataset.manifest.files
        self._first_rows = np.array([file.first_row for file in files])
        self._values = [_stored(dataset, file, field, shape) for file in files]

    def fill(self, rows: BatchRows, low: int, high: int, out: np.ndarray) -> None:
        """Write rows; see `Reading`."""
        ids, part = rows.ids[low:high], out[low:high]
        owners = np.searchsorted(self._first_rows, ids, side="right") - 1
        for number in np.unique(owners):
            values, here = self._values[number], owners == number
            places = ids[here] - self._first_rows[number]
            if values.dtype == part.dtype and here.all():
                np.take(values, places, axis=0, out=part, mode="clip")
            else:
                part[here] = values[places]


class BytesReading:
    """Bytes of different lengths, zeros after their end; see `Reading`."""

    def __init__(self, dataset: Dataset, field: str, bound: int) -> None:
        self.state = array_state((bound,), "uint8")
        self._dataset = dataset
        self._field = field

    def fill(self, rows: BatchRows, low: int, high: int, out: np.ndarray) -> None:
        """Write rows; see `Reading`."""
        for place in range(low, high):
            data = np.frombuffer(self._dataset.read(self._field, int(rows.ids[place])), np.uint8)
            out[place, : len(data)] = data
            out[place, len(data) :] = 0


class PipelineReading:
    """Images computed by a Stoker pipeline; see `Reading`."""

    def __init__(
        self, dataset: Dataset, field: str, define: Callable[[Any], Any], name: str
    ) -> None:
        """Build the pipeline.

        Raises:
            BuildError: it does not fit the field.
        """

        def one(sample: TracedSample) -> Mapping[str, Any]:
            return {"out": define(sample[field])}

        one.__name__ = name
        self._plan = bind(pipeline(one).graph(), field_states(dataset))
        output = self._plan.outputs[0]
        self.state = array_state(output.shape, output.dtype)
        self._dataset = dataset
        self._tools = threading.local()

    def fill(self, rows: BatchRows, low: int, high: int, out: np.ndarray) -> None:
        """Write rows; see `Reading`."""
        engine, reader = self._own()
        for place in range(low, high):
            row = rows.row(place)
            engine.run(row, reader.read(row.id), [out[place]])

    def _own(self) -> tuple[Engine, SampleReader]:
        found: tuple[Engine, SampleReader] | None = getattr(self._tools, "found", None)
        if found is None:
            reader = SampleReader(self._dataset, self._plan.fields)
            found = self._tools.found = (compile_plan(self._plan), reader)
        return found


def _stored(dataset: Dataset, file: DataFile, field: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return a file's values of a field, (rows, *shape), without a copy.

    Raises:
        BuildError: they differ in size.
    """
    declared = next(f for f in dataset.schema.fields if f.name == field)
    dtype = np.dtype(np.uint8 if declared.dtype == "bool" else declared.dtype)
    holder = file.holder(field)
    place = holder.columns[field]
    view = map_file(dataset.path / holder.name, holder.size_bytes)
    data = np.frombuffer(view[place.data.offset : place.data.end], np.uint8)
    start, size = 0, math.prod(shape) * dtype.itemsize
    if place.offsets is not None:
        offsets = np.frombuffer(view[place.offsets.offset : place.offsets.end], np.int64)
        start = int(offsets[0])
        if len(offsets) != file.rows + 1 or (np.diff(offsets) != size).any():
            raise BuildError(f"field {field!r}: expected values of one size, {shape}")
    return data[start : start + file.rows * size].view(dtype).reshape(file.rows, *shape)


def array_state(shape: tuple[int, ...], dtype: str) -> State:
    """Return the state of NumPy arrays."""
    return State(True, cpu_device(), tuple(shape), np.dtype(dtype))
