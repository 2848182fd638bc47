"""One operation on tensors, prepared: its memory, whether it draws, and how it is called.

It gets tensors, or arrays that it makes tensors of; or it makes arrays of tensors. A function on
tensors is neither rewritten nor compiled, so its draws cannot be bound to rows. If it
draws from torch, NumPy or Python's `random`, these generators are seeded for the batch and restored
later, so a batch is the same in every run, but a sample depends on its batch. Whether it draws
is found by one call on zeros, when the loader is built.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

import numpy as np

from stoker.compat.ffcv.batch_rows import BatchRows, on_samples, queries_of
from stoker.compat.ffcv.pipeline.allocation_query import Allocation, AllocationQuery
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.ops.custom.foreign import kept, line_of, seeded
from stoker.protocol.errors import BuildError, StokerError
from stoker.rng.streams import make_key, stream_key

TRIAL_ROWS: Final = 2


class TensorStep:
    """An operation on tensors, in the order of a pipeline.

    Attributes:
        draws: whether it draws.
        is_foreign: the same: it draws from generators of the process.
    """

    def __init__(
        self, operation: Operation, before: State, allocation: Allocation, name: str, stream: str
    ) -> None:
        """Prepare an operation whose state was declared.

        Args:
            operation: the operation.
            before: the state before it.
            allocation: the memory that it requests.
            name: its name in messages.
            stream: name of the stream that seeds it.

        Raises:
            BuildError: it fails on zeros.
        """
        self._name = name
        self._stream = stream
        self._before = before
        self._queries = queries_of(allocation, name)
        self._several = bool(self._queries) and not isinstance(allocation, AllocationQuery)
        self._is_cleared = False
        self._function: Callable[..., Any] = operation.generate_code()
        self._with_ids = bool(getattr(self._function, "with_indices", False))
        found = getattr(operation, "draws", None)  # a module was tried for its state
        ours = type(operation).__module__.partition(".")[0] == "stoker"
        self.draws = self.is_foreign = bool(found) if ours else self._try(before)

    def __call__(self, batch: Any, rows: BatchRows) -> Any:
        """Return the result on a batch; one that draws is called on the script's thread."""
        key = make_key(rows.seed, stream_key(self._stream), int(rows.ids[0]), rows.epoch)
        fill = 0 if self._is_cleared else None
        with seeded(key) if self.draws else nullcontext():
            return on_samples(self._name, rows, partial(self._call, batch, rows.ids, fill))

    def _call(self, batch: Any, ids: np.ndarray, fill: int | None) -> Any:
        memory = tuple(self._memory(query, len(batch), fill) for query in self._queries)
        dst = memory if self._several else (memory[0] if memory else None)
        return self._function(batch, dst, *([ids.astype(np.int64)] if self._with_ids else []))

    def _memory(self, query: AllocationQuery, count: int, fill: int | None) -> Any:
        """Return memory for some rows: a tensor, or an array for a NumPy dtype."""
        import torch  # noqa: PLC0415 - takes a second to load

        shape = (count, *query.shape)
        if isinstance(query.dtype, torch.dtype):
            device = self._before.device if query.device is None else query.device
            tensor = torch.empty(shape, dtype=query.dtype, device=device)
            return tensor if fill is None else tensor.fill_(fill)
        array = np.empty(shape, query.dtype)
        if fill is not None:
            array.fill(fill)
        return array

    def _try(self, before: State) -> bool:
        """Return whether it draws; note whether its results depend on what its memory held."""
        import torch  # noqa: PLC0415 - takes a second to load

        def call(fill: int) -> Any:
            sides = (TRIAL_ROWS, *before.shape)
            if before.is_array:
                zeros: Any = np.zeros(sides, before.dtype)
            else:
                zeros = torch.zeros(sides, dtype=before.dtype, device=before.device)
            with kept(0) as untouched:
                result = self._call(zeros, np.arange(TRIAL_ROWS), fill)
                views = result if isinstance(result, list | tuple) else [result]
                return [torch.as_tensor(view) for view in views], not untouched()

        try:
            (first, draws), (second, _) = call(0), call(1)
        except StokerError:
            raise
        except (Exception, SystemExit) as error:  # the user's function may raise anything
            raise BuildError(
                f"{self._name} fails on {before}, tried on zeros: {type(error).__name__}: "
                f"{error}{line_of(error)}"
            ) from error
        alike = len(first) == len(second) and all(map(torch.equal, first, second))
        self._is_cleared = bool(self._queries) and not alike
        return bool(draws)
