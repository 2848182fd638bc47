"""Many rows in one compiled call, where nothing has to be decoded: the fast way of small samples.

If every field that a pipeline reads is stored as it is used and alike for all samples, the rows
of a chunk are computed by one call of the engine, which reads their samples in the mapped files.
The rows are those of `stoker.server.rows.row_computer`, byte for byte; anything unusual (a
damaged sample, rows that pad) is left to it.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from stoker.dataset import Dataset
from stoker.dataset.reading.uniform_fields import UniformFields
from stoker.order.stream_order import RowColumns
from stoker.pipeline.compiled.executor import Executor
from stoker.pipeline.engine.interface import Engine
from stoker.pipeline.planning.scaled_fields import stored_field
from stoker.protocol.errors import SampleError
from stoker.server.rows.row_times import RowTimes


class ChunkComputer:
    """Computes chunks of a plan over a dataset; belongs to one thread.

    Attributes:
        engine: computes the rows.
        fields: finds the samples.
    """

    def __init__(
        self,
        engine: Executor,
        fields: UniformFields,
        check_row: Callable[[int], None] | None = None,
        times: RowTimes | None = None,
    ) -> None:
        self._times = times
        self.engine = engine
        self.fields = fields
        self._check_row = check_row

    def compute(
        self,
        seed: int,
        rows: RowColumns,
        outputs: Sequence[np.ndarray],
        records: np.ndarray | None = None,
    ) -> bool:
        """Compute rows; False if they must be computed one by one, and nothing they show counts.

        Args:
            seed: of the stream.
            rows: which; none of them pads.
            outputs: one for each of the plan's, (n, ...), contiguous.
            records: where what the rows draw is kept, of `Executor.room_for_records(n)`, if at all.
        """
        samples = self.fields.locate(rows.ids)
        if samples is None:
            return False
        try:
            if self._check_row is not None:
                for sample_id in rows.ids.tolist():
                    self._check_row(sample_id)
            if self._times is None:
                self.engine.run_rows(rows.words(seed), samples, outputs, records)
            else:
                run = partial(self.engine.run_rows, rows.words(seed), samples, outputs, records)
                self._times.chunk(self.engine, len(rows.ids), run)
        except SampleError:
            return False
        return True


def chunk_computer(
    engine: Engine, dataset: Dataset, times: RowTimes | None = None
) -> ChunkComputer | None:
    """Return what computes chunks of a plan, before mixes; None: go row by row."""
    plan = engine.plan
    if not isinstance(engine, Executor) or not engine.runs_chunks or not plan.fields:
        return None
    fields = dataset.alike(tuple(map(stored_field, plan.fields)))
    return None if fields is None else ChunkComputer(engine, fields, dataset.check_row, times)
