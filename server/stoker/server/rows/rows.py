"""From a place in a stream to bytes in a slot: the right side of the law, one row after the other.

Used unchanged by workers, by the plain-loop benchmark and, with the interpreter as engine, by the
reference; so scheduling can decide when and where a row is computed, and nothing else. Its bytes
depend on (StreamSpec, epoch, position, view) alone. No pixel-sized memory is allocated after
construction: encoded fields are decoded into buffers of their bound, and the engine writes its
outputs straight into the slot.

Rows are counted in the global batch; the stream's order says which sample each is. Rows beyond the
last sample are zero, `index` and `requested` -1, `valid` false. With buckets the output `drawn_as`
says with which epoch, visit and view a row draws.
"""

from collections.abc import Collection, Sequence

import numpy as np

from stoker.dataset import Dataset
from stoker.order.stream import PlainOrder, StreamOrder
from stoker.pipeline.engine.interface import Engine
from stoker.protocol.layout import META, SlotLayout, batch_layout
from stoker.protocol.spec import StreamSpec
from stoker.rng.row import Row
from stoker.server.rows.ahead import ReadAhead
from stoker.server.rows.chunks import chunk_computer
from stoker.server.rows.extents import Extents, Shapes
from stoker.server.rows.mixed import MixedRows
from stoker.server.rows.places import ALL_ROWS, Place, RowCounts
from stoker.server.rows.samples import Begun, SampleRows, nothing
from stoker.server.rows.schedules import try_schedules


class RowComputer:
    """Computes rows of one stream into slots.

    Attributes:
        home: half-open range of sample ids whose rows count as `home_rows`.
        samples: computes samples.
    """

    def __init__(  # noqa: PLR0913 - the parts of a stream
        self,
        spec: StreamSpec,
        dataset: Dataset,
        engine: Engine,
        layout: SlotLayout,
        first_row: int = 0,
        *,
        machine: bool = False,
        params: bool = False,
        order: StreamOrder | None = None,
        beside: "RowComputer | None" = None,
    ) -> None:
        """Prepare to compute rows.

        Args:
            spec: the stream.
            dataset: what it reads.
            engine: computes rows of its pipeline.
            layout: how a batch lies in a slot.
            first_row: the first row of a global batch that has a place there.
            machine: use machine code wherever there is some.
            params: whether the last output before the columns about the rows takes draw records.
            order: the stream's; None for that of a spec without buckets.
            beside: another computer on this thread, whose memory for samples is used.
        """
        self._spec = spec
        self._dataset = dataset
        self._engine = engine
        self._layout = layout
        self._first_row = first_row
        self._order = order or PlainOrder(spec, machine=machine)
        self.samples: SampleRows = SampleRows(
            spec, dataset, engine, self._order, machine=machine, params=params,
            beside=beside.samples if beside is not None else None,
        )  # fmt: skip
        whole = machine and not params and spec.buckets is None
        chunks = chunk_computer(engine, dataset) if whole else None
        self._chunks = None if engine.plan.mixes else chunks
        self._drawn_as = len(engine.plan.delivered) if spec.buckets is not None else None
        self._ahead: ReadAhead | None = beside._ahead if beside is not None else None
        if machine and beside is None:
            self._ahead = ReadAhead(dataset, engine.plan.fields)
        self._mixed: MixedRows | None = None
        if engine.plan.mixes:
            self._mixed = MixedRows(self.samples, self._order, machine=machine, chunks=chunks)
        self._extents: Extents | None = None
        if any(output.is_told for output in engine.plan.outputs):
            self._extents = Extents(spec, dataset, engine.plan, self._order, machine=machine)
        self.home = range(0)
        try_schedules(engine.plan, spec, self._order)

    def hear_samples(self, begun: Begun) -> None:
        """From now on tell of each sample before it is read; not of those of a compiled chunk."""
        self.samples.begun = begun

    def one_by_one(self) -> None:
        """From now on compute every row by itself, and tell of each."""
        self._chunks = None
        if self._mixed is not None:
            self._mixed.chunks = None

    def shapes_of(self, epoch: int, step: int) -> Shapes:
        """Return name of an output -> shape of its rows in a step, of those that `is_told`."""
        return self._extents.of(epoch, step) if self._extents is not None else {}

    def fill(
        self,
        slot: np.ndarray,
        epoch: int,
        step: int,
        row_lo: int,
        row_hi: int,
        begun: Begun = nothing,
        ended: Begun = nothing,
        *,
        crashed: Collection[int] = (),
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
            crashed: samples that are not touched, but replaced.

        Raises:
            SampleError: a sample cannot be used under policy "raise", or no substitute is good.
        """
        spec, counts = self._spec, RowCounts()
        self.samples.crashed = crashed
        rows = self._order.rows(epoch, step, row_lo, row_hi)
        if self._ahead is not None:
            self._ahead.hint(lambda: self._upcoming(epoch, step, row_lo, row_hi))
        shapes = self.shapes_of(epoch, step)
        counts.shapes = tuple(shapes.values())
        arrays = _arrays(slot, batch_layout(self._layout, shapes))
        outputs, meta = arrays[: -len(META)], arrays[-len(META) :]
        met = bool(crashed) and np.isin(rows.ids, list(crashed)).any()
        if self._chunks is not None and rows.ids[-1] >= 0 and not met:
            alone = row_hi - row_lo == 1
            begun(row_lo if alone else ALL_ROWS)
            if alone:
                self.samples.begun(int(rows.ids[0]))
            part = slice(row_lo - self._first_row, row_hi - self._first_row)
            if self._chunks.compute(spec.seed, rows, [array[part] for array in outputs]):
                self._note_chunk(rows.ids, [array[part] for array in meta], counts)
                ended(ALL_ROWS)
                return counts
        done_part = self._order.progress(epoch, step)
        if self._mixed is not None:
            self._mixed.enter(epoch, step, done_part, begun, range(row_lo, row_hi))
        ids, visits, epochs, places, views = (column.tolist() for column in rows)
        for i, row in enumerate(range(row_lo, row_hi)):
            begun(row)
            slots = [array[row - self._first_row, ...] for array in outputs]
            where = Place(epochs[i], places[i], views[i], step, done_part)
            number, done = ids[i], None
            if number >= 0:
                done = self._write(row, number, visits[i], where, slots, counts)
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
        outputs: list[np.ndarray],
        counts: RowCounts,
    ) -> Row | None:
        """Write a row as it is delivered; return which it is, if there is one."""
        counts.home_rows += number in self.home
        drawn_as = None
        if self._drawn_as is not None:
            drawn_as = outputs[self._drawn_as]
            outputs = outputs[: self._drawn_as] + outputs[self._drawn_as + 1 :]
        if self._mixed is not None:
            done = self._mixed.write(row, outputs, counts)
        else:
            done = self.samples.write(number, visit, where, outputs, counts)
        if drawn_as is not None and done is not None:
            drawn_as[...] = done.epoch, done.visit, done.view
        return done

    def _upcoming(self, epoch: int, step: int, row_lo: int, row_hi: int) -> np.ndarray:
        """Return the ids at the same rows of the next step, whoever will compute it."""
        step += 1
        if step == self._order.steps(epoch):
            epoch, step = epoch + 1, 0
        rows = self._order.positions(epoch, step) * self._spec.views
        found = self._order.rows(epoch, step, min(row_lo, rows), min(row_hi, rows))
        firsts = (found.views == 0) & (found.ids >= 0)
        firsts[:1] = found.ids[:1] >= 0
        ids: np.ndarray = found.ids[firsts]
        return ids

    def _note_chunk(self, ids: np.ndarray, meta: Sequence[np.ndarray], counts: RowCounts) -> None:
        """Write the columns about the rows of a chunk, and count them."""
        for array, values in zip(meta, (ids, ids, True), strict=True):
            array[...] = values
        counts.rows = len(ids)
        if self.home:
            counts.home_rows = int(((ids >= self.home.start) & (ids < self.home.stop)).sum())


def _arrays(slot: np.ndarray, layout: SlotLayout) -> list[np.ndarray]:
    return [
        np.ndarray(placed.shape, placed.dtype, slot, placed.offset) for placed in layout.outputs
    ]


def _clear(outputs: Sequence[np.ndarray]) -> None:
    for output in outputs:
        output[...] = 0
