"""Operations on arrays that are ops of a Stoker pipeline, run row by row by its engine.

So their pixels and draws are those of the op. They run on one thread, the loader's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stoker.compat.ffcv.array_pool import ArrayPool
from stoker.compat.ffcv.batch_rows import BatchRows
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.tracing.values import TracedSample
from stoker.protocol.errors import BuildError


class EngineOperation(Operation):
    """Base of operations that a pipeline computes; all of them draw."""

    @abstractmethod
    def define(self, stream: str) -> Callable[[Any], Any]:
        """Return the operation as a function of a value of a pipeline.

        Args:
            stream: name of the stream that it draws from.
        """

    def generate_code(self) -> Callable[..., Any]:
        """Raise: a pipeline computes it.

        Raises:
            BuildError: always.
        """
        raise BuildError(
            f"{type(self).__name__} has no code of its own; in a Stoker pipeline call the op of "
            "stoker.ops"
        )


class EngineStep:
    """An `EngineOperation` as a step of a pipeline.

    Attributes:
        draws: whether it draws: always.
    """

    draws = True

    def __init__(
        self, operation: EngineOperation, before: State, after: State, stream: str
    ) -> None:
        """Build the pipeline.

        Raises:
            BuildError: the op cannot run on arrays of this form.
        """
        define = operation.define(stream)

        def one(sample: TracedSample) -> Mapping[str, Any]:
            return {"out": define(sample["image"])}

        one.__name__ = type(operation).__name__
        plan = pipeline(one).plan_for({"image": np.zeros(before.shape, before.dtype)})
        self._engine = compile_plan(plan)
        self._after = after
        self._pool = ArrayPool()

    def __call__(self, batch: np.ndarray, rows: BatchRows) -> np.ndarray:
        """Return the operation's result on a batch."""
        out = self._pool.take((len(batch), *self._after.shape), self._after.dtype)
        for place in range(len(rows.ids)):
            self._engine.run(rows.row(place), [batch[place]], [out[place]])
        return out
