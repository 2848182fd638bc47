"""Computes rows of a stream and writes them into a slot, one at a time.

Used unchanged by workers, by the plain-loop benchmark and, with the interpreter as engine, by the
reference; so scheduling can decide when and where a row is computed, and nothing else. The bytes
depend on (StreamSpec, epoch, position, view) alone. No pixel-sized memory is allocated after
construction: encoded fields are decoded into buffers of their bound, and the engine writes its
outputs straight into the slot.

Rows are counted in the global batch; the stream's order says which sample each is. Rows beyond the
last sample are zero, `index` and `requested` -1, `valid` false. With buckets, weights or a mixture
the output `drawn_as` says with which epoch, visit and view a row draws.
"""

from collections.abc import Collection, Sequence

import numpy as np

from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.compose import dataset_order
from stoker.order.stream_order import RowColumns, StreamOrder
from stoker.pipeline.planning.scaled_fields import stored_fields
from stoker.protocol.row_digests import RowDigests
from stoker.protocol.slot_layout import META, SlotLayout, batch_layout
from stoker.protocol.spec import StreamSpec
from stoker.rng.row import Row
from stoker.server.rows.chunks import chunk_computer
from stoker.server.rows.counts import RowCounts
from stoker.server.rows.extents import Extents, Shapes
from stoker.server.rows.joined_pipelines import joined_outputs
from stoker.server.rows.listener import ALL_ROWS, RowListener
from stoker.server.rows.mixed_rows import MixedRows
from stoker.server.rows.sample_rows import RowSource, SampleRows
from stoker.server.rows.schedules import try_schedules
from stoker.server.rows.scratch import Scratch
from stoker.server.rows.shared import SharedSamples


class RowComputer:
    """Computes rows of a stream, or of one bucket of it, into slots.

    Attributes:
        home: half-open range of sample ids whose rows count as `home_rows`.
    """

    def __init__(  # noqa: PLR0913 - the parts of a stream
        self,
        spec: StreamSpec,
        sources: Sequence[RowSource],
        layout: SlotLayout,
        first_row: int = 0,
        *,
        arithmetic: Arithmetic = PLAIN,
        params: bool = False,
        order: StreamOrder | None = None,
        scratch: Scratch | None = None,
        listener: RowListener | None = None,
        verify: bool = False,
        shared: SharedSamples | None = None,
    ) -> None:
        """Prepare to compute rows.

        Args:
            spec: the stream.
            sources: its datasets, with what computes their rows; their outputs are the same.
            layout: the layout of a batch in a slot.
            first_row: the first row of a global batch that has a place there.
            arithmetic: how all but the engine computes; compiled, as workers do.
            params: whether the last output before the columns about the rows takes draw records.
            order: the stream's; None for that of one dataset without buckets.
            scratch: memory of this thread; None: memory of its own.
            listener: notes each row and sample before it is touched.
            verify: whether `fill` computes the digests of the rows.
            shared: what streams of a fork share; None: the stream belongs to none.
        """
        self.home = range(0)
        self._spec = spec
        self._layout = layout
        self._first_row = first_row
        self._order = order or dataset_order(spec, arithmetic=arithmetic)
        self._listener = listener or RowListener()
        scratch = scratch or Scratch()
        self._samples = SampleRows(
            spec, sources, self._order, arithmetic=arithmetic, params=params, scratch=scratch,
            listener=self._listener, shared=shared,
        )  # fmt: skip
        plans = [source.engine.plan for source in sources]
        mixes, outputs = bool(plans[0].mixes), joined_outputs([plan.delivered for plan in plans])
        whole = arithmetic.is_compiled and not params and spec.buckets is None
        whole = whole and len(sources) == 1 and not self._listener.row_by_row
        dataset, engine, times = sources[0]
        chunks = chunk_computer(engine, dataset, times) if whole else None
        self._chunks = None if mixes else chunks
        drawn_as = bool(spec.buckets or spec.order.weights or spec.mix)
        self._drawn_as = len(outputs) if drawn_as else None
        ahead = arithmetic.is_compiled and len(sources) == 1
        self._ahead = scratch.read_ahead(dataset, stored_fields(plans[0].fields)) if ahead else None
        self._mixed: MixedRows | None = None
        if mixes:
            self._mixed = MixedRows(
                self._samples, self._order, arithmetic=arithmetic, chunks=chunks,
                listener=self._listener,
            )  # fmt: skip
        self._digests = RowDigests(outputs) if verify else None
        self._extents: Extents | None = None
        if any(output.is_told for output in plans[0].outputs):
            self._extents = Extents(spec, sources, self._order, arithmetic=arithmetic)
        for plan in plans:
            try_schedules(plan, spec, self._order)

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
            crashed: samples that are not touched, but replaced.

        Raises:
            SampleError: a sample cannot be used under policy "raise", or no substitute is good.
        """
        shapes = self.shapes_of(epoch, step)
        layout = batch_layout(self._layout, shapes)
        counts = RowCounts(shapes=tuple(shapes.values()))
        self._samples.crashed = crashed
        self._fill(_arrays(slot, layout), epoch, step, row_lo, row_hi, counts)
        if self._digests is not None:
            first, stop = row_lo - self._first_row, row_hi - self._first_row
            counts.digests = self._digests.of(slot, layout.outputs, first, stop)
        return counts

    def _fill(
        self,
        slot: Sequence[np.ndarray],
        epoch: int,
        step: int,
        row_lo: int,
        row_hi: int,
        counts: RowCounts,
    ) -> None:
        columns = self._order.rows(epoch, step, row_lo, row_hi)
        if self._ahead is not None:
            self._ahead.hint(lambda: self._upcoming(epoch, step, row_lo, row_hi))
        first, stop = row_lo - self._first_row, row_hi - self._first_row
        arrays = [array[first:stop] for array in slot]
        self._listener.rows_begin(arrays)
        if self._fill_at_once(columns, row_lo, arrays, counts):
            return
        progress = self._order.progress(epoch, step)
        if self._mixed is not None:
            self._mixed.enter(epoch, step, progress, range(row_lo, row_hi))
        rows = columns.rows(self._spec.seed, step, progress)
        outputs, meta = arrays[: -len(META)], arrays[-len(META) :]
        told: list[tuple[int, int, bool]] = []
        for i, (row, position) in enumerate(zip(rows, columns.positions.tolist(), strict=True)):
            self._listener.row_begins(row_lo + i)
            done = self._write(row_lo + i, row, position, [a[i, ...] for a in outputs], counts)
            told.append((-1 if done is None else done.id, row.id, done is not None))
            counts.rows += 1
            self._listener.row_ends(row_lo + i)
        if told:
            for array, values in zip(meta, zip(*told, strict=True), strict=True):
                array[...] = values

    def _fill_at_once(
        self, columns: RowColumns, row_lo: int, arrays: Sequence[np.ndarray], counts: RowCounts
    ) -> bool:
        """Write all rows in one compiled call; False if they must be computed one by one."""
        ids, crashed = columns.ids, self._samples.crashed
        if self._chunks is None or ids[-1] < 0 or (crashed and np.isin(ids, list(crashed)).any()):
            return False
        alone = len(ids) == 1
        self._listener.row_begins(row_lo if alone else ALL_ROWS)
        if alone:
            self._listener.sample_begins(int(ids[0]))
        outputs = list(arrays[: -len(META)])
        drawn_as = None if self._drawn_as is None else outputs.pop(self._drawn_as)
        if not self._chunks.compute(self._spec.seed, columns, outputs):
            return False
        if drawn_as is not None:
            drawn_as[...] = np.stack((columns.epochs, columns.visits, columns.views), axis=1)
        for array, values in zip(arrays[-len(META) :], (ids, ids, True), strict=True):
            array[...] = values
        counts.rows = len(ids)
        if self.home:
            counts.home_rows = int(((ids >= self.home.start) & (ids < self.home.stop)).sum())
        self._listener.row_ends(ALL_ROWS)
        return True

    def _write(
        self, number: int, row: Row, position: int, outputs: list[np.ndarray], counts: RowCounts
    ) -> Row | None:
        """Write row `number` of the global batch; return what is delivered, None if nothing is."""
        done = None
        if row.id >= 0:
            done = self._write_sample(number, row, position, outputs, counts)
        if done is None:
            for output in outputs:
                output[...] = 0
        return done

    def _write_sample(
        self, number: int, row: Row, position: int, outputs: list[np.ndarray], counts: RowCounts
    ) -> Row | None:
        counts.home_rows += row.id in self.home
        drawn_as = None
        if self._drawn_as is not None:
            drawn_as = outputs[self._drawn_as]
            outputs = outputs[: self._drawn_as] + outputs[self._drawn_as + 1 :]
        if self._mixed is not None:
            done = self._mixed.write(number, outputs, counts)
        else:
            done = self._samples.write(row, position, outputs, counts)
        if drawn_as is not None and done is not None:
            drawn_as[...] = done.epoch, done.visit, done.view
        return done

    def _upcoming(self, epoch: int, step: int, row_lo: int, row_hi: int) -> np.ndarray:
        """Return the ids at the same rows of the next step, whichever worker computes it."""
        step += 1
        if step == self._order.steps(epoch):
            epoch, step = epoch + 1, 0
        rows = self._order.positions(epoch, step) * self._spec.views
        found = self._order.rows(epoch, step, min(row_lo, rows), min(row_hi, rows))
        firsts = (found.views == 0) & (found.ids >= 0)
        firsts[:1] = found.ids[:1] >= 0
        ids: np.ndarray = found.ids[firsts]
        return ids


def _arrays(slot: np.ndarray, layout: SlotLayout) -> list[np.ndarray]:
    return [
        np.ndarray(placed.shape, placed.dtype, slot, placed.offset) for placed in layout.outputs
    ]
