"""The pipeline of one field: a reading, steps on arrays, then functions on tensors."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from stoker.compat.ffcv.array_operation_step import ArrayOperationStep
from stoker.compat.ffcv.array_pool import ArrayPool
from stoker.compat.ffcv.batch_rows import BatchRows, Sample
from stoker.compat.ffcv.compiled_step import CompiledStep
from stoker.compat.ffcv.engine_operation import EngineOperation, EngineStep
from stoker.compat.ffcv.field_reading import Reading
from stoker.compat.ffcv.fields.decoders import Decoder, default_decoder
from stoker.compat.ffcv.operation_streams import OperationStreams
from stoker.compat.ffcv.operation_trial import TRIAL_ROWS
from stoker.compat.ffcv.pipeline.allocation_query import Allocation
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.compat.ffcv.python_step import PythonStep
from stoker.compat.ffcv.synchronize import SynchronizeSeed
from stoker.compat.ffcv.tensor_step import TensorStep
from stoker.dataset import Dataset
from stoker.dataset.format.fields import Field
from stoker.ops.custom.foreign import line_of
from stoker.protocol.errors import BuildError

OURS: Final = "stoker.compat.ffcv.transforms"
MIN_PART: Final = 16
"""Fewest rows that one thread decodes at a time."""
Begun = tuple[np.ndarray, list["Future[None]"]]


class LoaderSource(NamedTuple):
    """The samples of a loader.

    Attributes:
        dataset: where they are.
        ids: (n,) int64, those that it delivers.
    """

    dataset: Dataset
    ids: np.ndarray

    def some(self, count: int) -> np.ndarray:
        """Return ids, (count,) int64: the least, the greatest, and others; they may repeat."""
        places = np.linspace(0, len(self.ids) - 1, count).astype(np.int64)
        return np.sort(self.ids)[np.roll(places, 1)]


class FieldPipeline:
    """Makes the batches of one field.

    Attributes:
        field: its name: that of the field, or of another pipeline of one.
    """

    def __init__(
        self,
        source: LoaderSource,
        field: Field,
        operations: Sequence[Any] | None,
        streams: OperationStreams,
        copies: dict[int, tuple[Any, Any]],
        name: str,
    ) -> None:
        """Build the pipeline.

        Args:
            source: the samples.
            field: the field.
            operations: the pipeline; None: a decoder and `ToTensor`, by the field's kind.
            streams: the streams of the operations of all fields.
            copies: id of an operation -> it and the copy that runs, over all fields. The script may
                set attributes of the original while an epoch runs; the copy does not change.
            name: of the pipeline; that of the field if it is the only one of it.

        Raises:
            BuildError: an operation cannot run at its place.
        """
        from stoker.compat.ffcv.transforms.ops import ToTensor  # noqa: PLC0415 - loads torch

        self.field = name
        self._some = source.some(2 * TRIAL_ROWS)
        self._streams = streams
        self._copies = copies
        self._pool = ArrayPool()
        given = operations if operations is not None else [default_decoder(field), ToTensor()]
        found = self._first(list(given))
        if not found or not isinstance(found[0], Decoder):
            raise BuildError(
                f"pipelines[{name!r}]: expected a decoder as its first operation, got "
                f"{type(found[0]).__name__ if found else 'nothing'}"
            )
        decoder, stream = found[0], streams.name(name, found[0])
        self._reading: Reading = self._own(decoder).open(source.dataset, field, stream)
        if decoder.draws:
            streams.drew(name, decoder)
        self._steps: list[CompiledStep | EngineStep | PythonStep | TensorStep] = []
        state = self._reading.state
        for operation in found[1:]:
            if not self._marked(operation):
                state = self._add(operation, state)

    def begin(self, rows: BatchRows, threads: ThreadPoolExecutor, workers: int) -> Begun:
        """Start to read the field of some rows in threads; returns at once."""
        count, state = len(rows.ids), self._reading.state
        value = self._pool.take((count, *state.shape), state.dtype)
        part = max(MIN_PART, -(-count // (2 * workers)))
        parts = [(low, min(low + part, count)) for low in range(0, count, part)]
        return value, [threads.submit(self._reading.fill, rows, *p, value) for p in parts]

    def batch(self, begun: Begun, rows: BatchRows) -> Any:
        """Return the field's batch, as far as it may be computed outside the script's thread."""
        value: Any = begun[0]
        for done in begun[1]:
            done.result()
        for step in self._steps[: self._later]:
            value = step(value, rows)
        return value

    def finish(self, value: Any, rows: BatchRows) -> Any:
        """Do the rest of the work on the script's thread, from the first step that is foreign.

        The script uses the global generators too, so they may be seeded and restored only while
        the script waits.
        """
        for step in self._steps[self._later :]:
            value = step(value, rows)
        return value

    @property
    def _later(self) -> int:
        """Place of the first step that draws from generators of the process."""
        foreign = (i for i, step in enumerate(self._steps) if getattr(step, "is_foreign", False))
        return next(foreign, len(self._steps))

    def _add(self, operation: Any, state: State) -> State:
        from stoker.compat.ffcv.transforms.ops import ModuleWrapper  # noqa: PLC0415 - loads torch

        if not isinstance(operation, Operation):
            if not callable(getattr(operation, "forward", None)):
                raise BuildError(
                    f"pipelines[{self.field!r}]: expected an Operation or a torch.nn.Module, got "
                    f"{operation!r}"
                )
            module = operation  # one module in two pipelines is one operation
            operation = self._copies.setdefault(id(module), (module, ModuleWrapper(module)))[1]
        original, operation = operation, self._own(operation)
        module = operation.module if isinstance(operation, ModuleWrapper) else None
        title = type(operation if module is None else module).__name__
        stream = self._streams.name(self.field, original, title)
        name = f"{type(operation).__name__} of field {self.field!r}"
        if type(operation).__module__.startswith(OURS) and state.is_array:
            state = replace(state, jit_mode=True)  # an operation before it may have run as Python
        after, allocation = self._declared(operation, state, name)
        step: CompiledStep | EngineStep | PythonStep | TensorStep
        sample = Sample(self._some, self._sample)
        if isinstance(operation, EngineOperation):
            step = EngineStep(operation, state, after, stream)
        elif not state.is_array or not after.is_array:
            step = TensorStep(operation, state, allocation, name, stream)
        elif after.jit_mode:
            step = CompiledStep(operation, state, name, stream, sample=sample)
        else:
            step = PythonStep(operation, state, name, stream, sample=sample)
        self._steps.append(step)
        if isinstance(step, ArrayOperationStep):
            after = step.after  # an operation may return another form than it declares
        if step.draws:
            self._streams.drew(self.field, original, title)
        if isinstance(step, ArrayOperationStep) and step.seeds:
            self._streams.seeds(self.field, name, is_batch_op=step.is_batch_op)
        return after

    @staticmethod
    def _declared(operation: Operation, state: State, name: str) -> tuple[State, Allocation]:
        try:
            return operation.declare_state_and_memory(state)
        except SystemExit as error:  # a module is tried on zeros there
            raise BuildError(
                f"{name} raised SystemExit: {error}{line_of(error)} when it was tried on {state}. "
                "An operation must not end the program: raise another exception"
            ) from error

    def _sample(self) -> np.ndarray:
        """Return some rows of the dataset, after the steps so far."""
        rows, state = BatchRows(0, 0, self._some), self._reading.state
        value = self._pool.take((len(rows.ids), *state.shape), state.dtype)
        self._reading.fill(rows, 0, len(rows.ids), value)
        for step in self._steps:
            value = step(value, rows)
        return value

    def _first(self, operations: list[Any]) -> list[Any]:
        """Return the operations after the marks in front."""
        marks = itertools.takewhile(self._marked, operations)
        return operations[len(list(marks)) :]

    def _marked(self, operation: Any) -> bool:
        """Return whether an operation is a mark; it is noted."""
        if isinstance(operation, SynchronizeSeed):
            self._streams.mark(self.field, operation.seed_offset)
        return isinstance(operation, SynchronizeSeed)

    def _own(self, operation: Any) -> Any:
        """Return the copy of an operation that runs; the modules that it calls are not copied."""
        if id(operation) not in self._copies:  # keeps the original too, so its id stays its own
            self._copies[id(operation)] = operation, copy.copy(operation)
        return self._copies[id(operation)][1]
