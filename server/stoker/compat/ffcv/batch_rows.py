"""The rows of a batch, and how a step of a pipeline is called on them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stoker.compat.ffcv.pipeline.allocation_query import Allocation, AllocationQuery
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.ops.custom.foreign import line_of
from stoker.pipeline import Row
from stoker.protocol.errors import BuildError, SampleError, StokerError
from stoker.rng.streams import Key, stream_key


class Sample(NamedTuple):
    """Rows of a dataset, as many as a trial has.

    Attributes:
        ids: (n,) int64, the first and the last id of the dataset before the others.
        values: returns the rows, (n, *shape), as the operation gets them.
    """

    ids: np.ndarray
    values: Callable[[], np.ndarray]


class BatchRows(NamedTuple):
    """The rows of a batch: everything that their draws depend on, besides the stream.

    Attributes:
        seed: seed of the stream.
        epoch: from 0.
        ids: (B,) int64, sample ids.
        visits: (B,) int64, how often each came before in the epoch; None: never.
    """

    seed: int
    epoch: int
    ids: np.ndarray
    visits: np.ndarray | None = None

    def row(self, place: int) -> Row:
        """Return a row as those of pipelines."""
        visit = 0 if self.visits is None else int(self.visits[place])
        return Row(self.seed, int(self.ids[place]), self.epoch, visit)

    def keys(self, stream: str) -> np.ndarray:
        """Return the key of each row for a stream, (B, 5) uint64."""
        keys = np.zeros((len(self.ids), 5), np.uint64)
        keys[:, 0], keys[:, 1], keys[:, 3] = self.seed, stream_key(stream), self.epoch
        keys[:, 2] = self.ids
        if self.visits is not None:
            keys[:, 4] = self.visits * 2**16
        return keys


def key_in(words: np.ndarray) -> Key:
    """Return the key that the first five of some words are."""
    return Key(*(int(word) for word in words[:5]))


def on_samples(name: str, rows: BatchRows, function: Callable[[], Any]) -> Any:
    """Return a function's result; what would end the script, or the thread, is an error.

    Args:
        name: field and operation, for the message.
        rows: the rows that it works on.
        function: calls the operation.

    Raises:
        SampleError: it raised SystemExit, or KeyboardInterrupt where that cannot be a Ctrl-C.
    """
    try:
        return function()
    except (SystemExit, KeyboardInterrupt) as error:
        scripts = threading.current_thread() is threading.main_thread()
        if isinstance(error, KeyboardInterrupt) and scripts:
            raise
        raise SampleError(
            f"{name} raised {type(error).__name__}: {error}{line_of(error)}, on samples "
            f"{', '.join(map(str, rows.ids[:8]))}{', ...' if len(rows.ids) > 8 else ''}, epoch "
            f"{rows.epoch}. An operation must not end the program: raise another exception",
            epoch=rows.epoch,
            seed=rows.seed,
        ) from error


def declared(operation: Operation, before: State, name: str) -> tuple[State, Allocation]:
    """Return the state after an operation, and the memory that it requests.

    Raises:
        BuildError: its method fails.
    """
    try:
        after, allocation = operation.declare_state_and_memory(before)
    except StokerError:
        raise
    except (Exception, SystemExit) as error:  # the user's method may raise anything
        raise BuildError(
            f"{name}: declare_state_and_memory failed on {before} with {type(error).__name__}: "
            f"{error}"
        ) from error
    return after, allocation


def queries_of(allocation: Allocation, name: str) -> tuple[AllocationQuery, ...]:
    """Return the single requests for memory.

    Raises:
        BuildError: there is something else among them.
    """
    if allocation is None:
        return ()
    found = (allocation,) if isinstance(allocation, AllocationQuery) else tuple(allocation)
    for query in found:
        if not isinstance(query, AllocationQuery):
            raise BuildError(f"{name}: expected an AllocationQuery, got {query!r}")
    return found


def generated(operation: Operation, name: str) -> Callable[..., Any]:
    """Return the function of an operation.

    Raises:
        BuildError: it is not a function.
    """
    function = operation.generate_code()
    if not callable(function):
        raise BuildError(f"{name}: generate_code must return a function, got {function!r}")
    return function
