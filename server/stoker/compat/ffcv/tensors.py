"""One operation on tensors, prepared: whether it draws, and how it is called.

A function on tensors is neither rewritten nor compiled, so its draws cannot be bound to rows. If it
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

from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.compat.ffcv.rows import BatchRows, on_samples
from stoker.ops.custom.foreign import kept, line_of, seeded
from stoker.protocol.errors import BuildError, StokerError
from stoker.rng.streams import make_key, stream_key

TRIAL_ROWS: Final = 2


class TensorStep:
    """An operation on tensors, in the order of a pipeline.

    Attributes:
        draws: whether it draws.
    """

    def __init__(self, operation: Operation, before: State, name: str, stream: str) -> None:
        """Prepare an operation whose state was declared.

        Args:
            operation: the operation.
            before: the state before it.
            name: its name in messages.
            stream: name of the stream that seeds it.

        Raises:
            BuildError: it fails on zeros.
        """
        self._name = name
        self._stream = stream
        self._function: Callable[..., Any] = operation.generate_code()
        self._with_ids = bool(getattr(self._function, "with_indices", False))
        found = getattr(operation, "draws", None)  # a module was tried for its state
        ours = type(operation).__module__.partition(".")[0] == "stoker"
        self.draws = bool(found) if ours else self._try(before)

    def __call__(self, batch: Any, rows: BatchRows) -> Any:
        """Return the result on a batch; one that draws is called on the script's thread."""
        key = make_key(rows.seed, stream_key(self._stream), int(rows.ids[0]), rows.epoch)
        with seeded(key) if self.draws else nullcontext():
            return on_samples(self._name, rows, partial(self._call, batch, rows.ids))

    def _call(self, batch: Any, ids: np.ndarray) -> Any:
        return self._function(batch, None, *([ids.astype(np.int64)] if self._with_ids else []))

    def _try(self, before: State) -> bool:
        """Return whether it draws."""
        import torch  # noqa: PLC0415 - takes a second to load

        zeros = torch.zeros((TRIAL_ROWS, *before.shape), dtype=before.dtype, device=before.device)
        with kept(0) as untouched:
            try:
                self._call(zeros, np.arange(TRIAL_ROWS))
            except StokerError:
                raise
            except (Exception, SystemExit) as error:  # the user's function may raise anything
                raise BuildError(
                    f"{self._name} fails on {before}, tried on zeros: {type(error).__name__}: "
                    f"{error}{line_of(error)}"
                ) from error
            return not untouched()
