"""What the compiled and the Python form of an operation on arrays have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from stoker.compat.ffcv.batch_need import MixesRows
from stoker.compat.ffcv.batch_rows import (
    BatchRows,
    Sample,
    declared,
    generated,
    on_samples,
    queries_of,
)
from stoker.compat.ffcv.operation_trial import no_batch
from stoker.compat.ffcv.pipeline.allocation_query import AllocationQuery
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.compat.ffcv.rewriting import RewrittenFunction
from stoker.compat.ffcv.working_memory import WorkingMemory


class ArrayOperationStep(ABC):
    """An operation on arrays, in the order of a pipeline.

    Attributes:
        name: field and operation, for messages.
        before: the state before it.
        after: the state after it: as it declares it, or as its results are.
        queries: the memory that it requests.
        memory: what it works in.
        code: its rewritten function.
        is_batch_op: whether it gets all rows at once and may mix them.
        is_declared: whether its class says so.
        gets_one_row: whether it never gets more than one row.
        draws: whether it draws.
        seeds: whether it seeds its draws alike in all pipelines.
    """

    code: RewrittenFunction
    is_batch_op: bool
    gets_one_row: bool
    draws: bool
    seeds: bool

    def __init__(
        self,
        operation: Operation,
        before: State,
        name: str,
        stream: str,
        *,
        alone: bool = False,
        sample: Sample | None = None,
    ) -> None:
        """Prepare an operation.

        Args:
            operation: the operation.
            before: the state before it.
            name: its name in messages.
            stream: name of the stream that it draws from.
            alone: it gets one row at a time and one core, and must not mix rows.
            sample: rows of the dataset; None: only noise is known.

        Raises:
            BuildError: it cannot run, or a row would depend on more than its key; the message names
                it and the reason.
        """
        self.name = name
        self.before = before
        self._stream = stream
        self._operation = operation
        self.after, allocation = declared(operation, before, name)
        self.queries = queries_of(allocation, name)
        self._several = bool(self.queries) and not isinstance(allocation, AllocationQuery)
        self.take(self.after)
        self._function = generated(operation, name)
        self.is_declared = operation.is_batch_op is not None
        try:
            self._prepare(sample, is_batch_op=bool(operation.is_batch_op))
        except MixesRows:
            if alone:
                raise no_batch(name) from None
            self._prepare(sample, is_batch_op=True)

    def __call__(self, batch: np.ndarray, rows: BatchRows) -> np.ndarray:
        """Return the operation's result on a batch.

        Raises:
            SampleError: it asked to exit, by SystemExit or KeyboardInterrupt.
        """
        keys, ids = rows.keys(self._stream), rows.ids.astype(np.int64)
        found: np.ndarray = on_samples(self.name, rows, lambda: self.run(batch, keys, ids))
        return found

    @abstractmethod
    def run(self, batch: np.ndarray, keys: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return the operation's result on a batch whose rows have these keys.

        Args:
            batch: (B, *shape) of the state before it; may be written to.
            keys: (B, 5) uint64, the words of each row's key.
            ids: (B,) int64, sample ids.
        """

    @abstractmethod
    def _prepare(self, sample: Sample | None, *, is_batch_op: bool) -> None:
        """Rewrite the function and try it."""

    def take(self, after: State) -> None:
        """Take the state of its results, and prepare memory for them."""
        self.after = after
        self.memory = WorkingMemory(self.queries, after, several=self._several)
