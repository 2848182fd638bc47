"""From a place in a stream to bytes in a slot: the right side of the law, one row after the other.

Used unchanged by workers, by the plain-loop benchmark and, with the interpreter as engine, by the
reference; so scheduling can decide when and where a row is computed, and nothing else. Its bytes
depend on (StreamSpec, epoch, position, view) alone. No pixel-sized memory is allocated after
construction: encoded fields are decoded into buffers of their bound, and the engine writes its
outputs straight into the slot.

Rows are counted in the global batch: row r belongs to position `start + r // views`, view
`r % views`. Rows beyond the last sample are zero, `index` and `requested` -1, `valid` false.
"""

from collections.abc import Callable, Sequence

import numpy as np

from stoker.dataset import Dataset
from stoker.order.batches import positions, progress, steps_per_epoch
from stoker.order.epoch import EpochOrder
from stoker.pipeline.engine import Engine, Row
from stoker.protocol.layout import META, SlotLayout
from stoker.protocol.spec import StreamSpec
from stoker.server.ahead import ReadAhead
from stoker.server.chunks import chunk_computer
from stoker.server.mixed import MixedRows
from stoker.server.places import Place, RowCounts
from stoker.server.samples import SampleRows
from stoker.server.schedules import try_schedules

ALL_ROWS = -1
"""Told as the row that is computed where many are at a time."""
Begun = Callable[[int], None]


def _nothing(row: int) -> None:
    return


class RowComputer:
    """Computes rows of one stream into slots.

    Attributes:
        home: half-open range of sample ids whose rows count as `home_rows`.
    """

    def __init__(
        self,
        spec: StreamSpec,
        dataset: Dataset,
        engine: Engine,
        layout: SlotLayout,
        first_row: int = 0,
        *,
        machine: bool = False,
        params: bool = False,
    ) -> None:
        self._spec = spec
        self._dataset = dataset
        self._engine = engine
        self._layout = layout
        self._first_row = first_row
        self._order = EpochOrder(spec, machine=machine)
        self._samples = SampleRows(spec, dataset, engine, machine=machine, params=params)
        self._chunks = chunk_computer(engine, dataset) if machine and not params else None
        self._ahead = ReadAhead(dataset, engine.plan.fields) if machine else None
        self._mixed: MixedRows | None = None
        if engine.plan.mixes:
            self._mixed = MixedRows(self._samples, self._order, machine=machine)
        self.home = range(0)
        try_schedules(engine.plan, spec)

    def one_by_one(self) -> None:
        """From now on compute every row by itself, and tell of each."""
        self._chunks = None

    def fill(
        self,
        slot: np.ndarray,
        epoch: int,
        step: int,
        row_lo: int,
        row_hi: int,
        begun: Begun = _nothing,
        ended: Begun = _nothing,
    ) -> RowCounts:
        """Write the rows [row_lo, row_hi) of a step into a slot.

        Args:
            slot: (slot_bytes,) uint8, the memory of the slot.
            epoch: the epoch, from 0.
            step: the step in the epoch, from 0.
            row_lo: first row of the global batch to write, at least `first_row`.
            row_hi: end of the rows to write.
            begun: called with each row before it is computed, or once with ALL_ROWS.
            ended: called with each row after it is written, or once with ALL_ROWS.

        Raises:
            SampleError: a sample cannot be used under policy "raise", or no substitute is good.
        """
        spec, counts = self._spec, RowCounts()
        start, _ = positions(spec, step)
        first = start + row_lo // spec.views
        stop = min(start + (row_hi - 1) // spec.views + 1, spec.dataset_rows)
        ids, visits = self._order.lookup_range(epoch, first, max(first, stop))
        if self._ahead is not None:
            self._ahead.hint(lambda: self._upcoming(epoch, step, first, stop))
        done_part = progress(spec, epoch, step)
        arrays = _arrays(slot, self._layout)
        outputs, meta = arrays[: -len(META)], arrays[-len(META) :]
        rows = np.arange(row_lo, row_hi)
        places = rows // spec.views + start
        if self._chunks is not None and places[-1] < spec.dataset_rows:
            begun(ALL_ROWS)
            picked = places - first
            table = np.stack([ids[picked], visits[picked], rows % spec.views], 1).astype(np.int64)
            part = slice(row_lo - self._first_row, row_hi - self._first_row)
            if self._chunks.compute(spec.seed, epoch, table, [array[part] for array in outputs]):
                self._note_chunk(table[:, 0], [array[part] for array in meta], counts)
                ended(ALL_ROWS)
                return counts
        if self._mixed is not None:
            self._mixed.enter(epoch, step, done_part, begun)
        for row in range(row_lo, row_hi):
            begun(row)
            place, view = start + row // spec.views, row % spec.views
            slots = [array[row - self._first_row, ...] for array in outputs]
            where = Place(epoch, place, view, step, done_part)
            number, done = -1, None
            if place < spec.dataset_rows:
                number, visit = int(ids[place - first]), int(visits[place - first])
                done = self._write(row, number, visit, where, slots, counts)
            if done is None:
                _clear(slots)
            found = -1 if done is None else done.id
            for array, value in zip(meta, (found, number, done is not None), strict=True):
                array[row - self._first_row] = value
            counts.rows += 1
            ended(row)
        return counts

    def _write(
        self,
        row: int,
        number: int,
        visit: int,
        where: Place,
        outputs: Sequence[np.ndarray],
        counts: RowCounts,
    ) -> Row | None:
        """Write a row as it is delivered; return which it is, if there is one."""
        counts.home_rows += number in self.home
        if self._mixed is not None:
            return self._mixed.write(row, outputs, counts)
        return self._samples.write(number, visit, where, outputs, counts)

    def _upcoming(self, epoch: int, step: int, first: int, stop: int) -> np.ndarray:
        """Return the ids at the same places of the next step, whoever will compute it."""
        if step + 1 < steps_per_epoch(self._spec):
            first, stop = first + self._spec.batch_size, stop + self._spec.batch_size
        else:
            start, _ = positions(self._spec, step)
            epoch, first, stop = epoch + 1, first - start, stop - start
        stop = min(stop, self._spec.dataset_rows)
        return self._order.lookup_range(epoch, min(first, stop), stop)[0]

    def _note_chunk(self, ids: np.ndarray, meta: Sequence[np.ndarray], counts: RowCounts) -> None:
        """Write the columns about the rows of a chunk, and count them."""
        for array, values in zip(meta, (ids, ids, True), strict=True):
            array[...] = values
        counts.rows = len(ids)
        counts.home_rows = int(((ids >= self.home.start) & (ids < self.home.stop)).sum())


def _arrays(slot: np.ndarray, layout: SlotLayout) -> list[np.ndarray]:
    return [
        slot[placed.offset : placed.offset + placed.size_bytes]
        .view(placed.dtype)
        .reshape(placed.shape)
        for placed in layout.outputs
    ]


def _clear(outputs: Sequence[np.ndarray]) -> None:
    for output in outputs:
        output[...] = 0
