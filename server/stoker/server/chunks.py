"""Many rows in one compiled call, where nothing has to be decoded: the fast way of small samples.

Where every field that a pipeline reads is stored as it is used and alike for all samples, the
fields of a chunk are gathered into arrays and its rows computed by one call of the engine. The rows
are those of `stoker.server.rows`, byte for byte; whatever is out of the ordinary (a damaged sample,
rows that pad) is left to it. The arrays grow to the largest chunk and are kept.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stoker.dataset import Dataset
from stoker.dataset.reader import is_alike
from stoker.pipeline.engine import Engine
from stoker.pipeline.executor import Executor
from stoker.protocol.errors import SampleError


class ChunkComputer:
    """Computes chunks of a plan over a dataset; belongs to one thread."""

    def __init__(self, engine: Executor, dataset: Dataset) -> None:
        self._engine = engine
        self._dataset = dataset
        fields = [dataset.schema.field(name) for name in engine.plan.fields]
        self._items = [(f.name, np.dtype(f.dtype), f.shape) for f in fields if f is not None]
        self._memory = [np.empty((0,), np.uint8) for _ in self._items]

    def compute(
        self, seed: int, epoch: int, rows: np.ndarray, outputs: Sequence[np.ndarray]
    ) -> bool:
        """Compute rows; False if they must be computed one by one, and nothing they show counts.

        Args:
            seed: of the stream.
            epoch: from 0.
            rows: (n, 3) int64: id, visit, view of each row.
            outputs: one for each of the plan's, (n, ...), contiguous.
        """
        ids, count = np.ascontiguousarray(rows[:, 0]), len(rows)
        columns: list[np.ndarray] = []
        for place, (name, dtype, shape) in enumerate(self._items):
            column = self._column(place, count, dtype, shape)
            if not self._dataset.gather(name, ids, column):
                return False
            columns.append(column)
        table = np.empty((count, 4), np.uint64)
        table[:, 0], table[:, 1], table[:, 2] = seed, ids, epoch
        table[:, 3] = rows[:, 1] << 16 | rows[:, 2]
        try:
            self._engine.run_rows(table, np.arange(count), columns, outputs)
        except SampleError:
            return False
        return True

    def _column(self, place: int, count: int, dtype: np.dtype[Any], shape: Any) -> np.ndarray:
        size_bytes = count * dtype.itemsize * int(np.prod(shape))
        if self._memory[place].size < size_bytes:
            self._memory[place] = np.empty(size_bytes, np.uint8)
        return self._memory[place][:size_bytes].view(dtype).reshape(count, *shape)


def chunk_computer(engine: Engine, dataset: Dataset) -> ChunkComputer | None:
    """Return what computes chunks of a plan; None if rows must be computed one by one, or mixed."""
    fields = [dataset.schema.field(name) for name in engine.plan.fields]
    if not isinstance(engine, Executor) or not engine.runs_chunks or not fields:
        return None
    if engine.plan.mixes:
        return None
    alike = all(field is not None and is_alike(field) for field in fields)
    return ChunkComputer(engine, dataset) if alike else None
