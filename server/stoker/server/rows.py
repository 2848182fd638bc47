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
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stoker.dataset import Dataset
from stoker.order.batches import positions, progress, steps_per_epoch
from stoker.order.epoch import EpochOrder
from stoker.order.substitutes import MAX_ATTEMPTS, substitute
from stoker.pipeline.drawing import Recorder
from stoker.pipeline.engine import Engine, Freeze, Row
from stoker.pipeline.plan import Plan
from stoker.pipeline.windows import Box, Windows
from stoker.protocol.errors import SampleError
from stoker.protocol.layout import META, SlotLayout
from stoker.protocol.spec import StreamSpec
from stoker.server.ahead import ReadAhead
from stoker.server.chunks import chunk_computer
from stoker.server.schedules import try_schedules
from stoker.server.work import MAX_BAD_TOLD, BadSample

ENCODED = ("jpeg", "png", "encoded", "bands")
ALL_ROWS = -1
"""Told as the row that is computed where many are at a time."""
MAX_REASON = 1000
Begun = Callable[[int], None]


@dataclass
class RowCounts:
    """What happened while rows were filled."""

    rows: int = 0
    home_rows: int = 0
    replaced_rows: int = 0
    invalid_rows: int = 0
    bad: list[BadSample] = field(default_factory=list)


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
        self._inputs = SampleReader(dataset, engine.plan.fields)
        if machine:
            self._inputs.read_boxes_alone(engine.plan, spec.freeze)
        self._drawn = Recorder(engine) if params else None
        self._chunks = chunk_computer(engine, dataset) if machine and not params else None
        self._ahead = ReadAhead(dataset, engine.plan.fields) if machine else None
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
        for row in range(row_lo, row_hi):
            begun(row)
            place, view = start + row // spec.views, row % spec.views
            slots = [array[row - self._first_row, ...] for array in outputs]
            where = _Place(epoch, place, view, step, done_part)
            if place < spec.dataset_rows:
                number = int(ids[place - first])
                done = self._sample(number, int(visits[place - first]), where, slots, counts)
                counts.home_rows += number in self.home
            else:
                number, done = -1, -1
            if done < 0:
                _clear(slots)
            for array, value in zip(meta, (done, number, done >= 0), strict=True):
                array[row - self._first_row] = value
            counts.rows += 1
            ended(row)
        return counts

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

    def _sample(
        self,
        number: int,
        visit: int,
        place: "_Place",
        outputs: Sequence[np.ndarray],
        counts: RowCounts,
    ) -> int:
        """Write one sample by the bad-sample policy; return the id delivered, or -1."""
        try:
            self._compute(number, visit, place, outputs)
            return number
        except SampleError as error:
            if self._spec.on_error == "raise":
                raise
            self._note_bad(number, error, counts)
            if self._spec.on_error == "mask":
                counts.invalid_rows += 1
                return -1
            counts.replaced_rows += 1
            return self._substitute(number, place, outputs, counts, error)

    def _note_bad(self, number: int, error: SampleError, counts: RowCounts) -> None:
        """Remember a bad sample; whoever runs the workers says what becomes of it."""
        if len(counts.bad) < MAX_BAD_TOLD:
            field = str(error.details.get("field", ""))
            reason = str(error.details.get("reason", error.message))[:MAX_REASON]
            try:
                source = (self._dataset.source(number) or "")[:MAX_REASON]
            except SampleError:
                source = ""
            counts.bad.append(BadSample(number, field, source, reason))

    def _substitute(
        self,
        bad: int,
        place: "_Place",
        outputs: Sequence[np.ndarray],
        counts: RowCounts,
        why: SampleError,
    ) -> int:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            number, visit = substitute(self._spec, place.epoch, place.position, bad, attempt)
            try:
                self._compute(number, visit, place, outputs)
                return number
            except SampleError as error:
                self._note_bad(number, error, counts)
                why = error
        raise SampleError(
            f"{MAX_ATTEMPTS} substitutes for sample {bad} failed too, the last with: {why}. "
            "Run `stoker verify` on the dataset",
            **why.details,
        )

    def _compute(
        self, number: int, visit: int, place: "_Place", outputs: Sequence[np.ndarray]
    ) -> None:
        if self._drawn is not None:
            *outputs, drawn = outputs
        where = (place.epoch, visit, place.view, place.step, place.progress)
        row = Row(self._spec.seed, number, *where)
        self._engine.run(row, self._inputs.read(number, row), outputs)
        if self._drawn is not None:
            self._drawn.write(drawn)


@dataclass(frozen=True)
class _Place:
    epoch: int
    position: int
    view: int
    step: int
    progress: float | None


class SampleReader:
    """Reads the fields that a plan wants, decoding into buffers made once.

    What was decoded last stays: the views of a position come one after the other, and a sample of
    which they need the same is decoded once for all of them. Engines never write their inputs.
    """

    def __init__(self, dataset: Dataset, names: Sequence[str]) -> None:
        fields = {field.name: field for field in dataset.schema.fields}
        self._dataset = dataset
        self._readers: list[tuple[str, np.ndarray | None]] = []
        for name in names:
            field = fields[name]
            buffer = None
            if field.encoding in ENCODED:
                buffer = np.empty(int(np.prod(field.bound)), np.uint8)
            self._readers.append((name, buffer))
        self._windows: Windows | None = None
        self._decoded: dict[str, tuple[int, Box | None, Any]] = {}

    def read_boxes_alone(self, plan: Plan, freeze: Freeze | None) -> None:
        """From now on decode only what the plan reads of a row, where the encoding allows it."""
        fields = self._dataset.schema.fields
        windows = Windows(plan, [field.name for field in fields if field.has_parts], freeze)
        self._windows = windows if windows.fields else None

    def read(self, number: int, row: Row | None = None) -> list[Any]:
        """Return the fields of one sample, valid until the next call.

        Args:
            number: the sample's id.
            row: which row will be computed of it; None if anything may be read.
        """
        boxes: dict[str, Box] = {}
        if row is not None and self._windows is not None:
            sizes = {name: self._dataset.size(name, number) for name in self._windows.fields}
            boxes = self._windows.boxes(row, sizes)
        return [self._field(name, number, buffer, boxes) for name, buffer in self._readers]

    def _field(
        self, name: str, number: int, buffer: np.ndarray | None, boxes: dict[str, Box]
    ) -> Any:
        if buffer is None:
            return self._dataset.read(name, number)
        box = boxes.get(name)
        last = self._decoded.pop(name, None)  # left out if this one cannot be decoded
        if last is None or last[:2] != (number, box):
            last = (number, box, self._decode(name, number, buffer, box))
        self._decoded[name] = last
        return last[2]

    def _decode(self, name: str, number: int, buffer: np.ndarray, box: Box | None) -> Any:
        if box is not None:
            return self._dataset.decode_box(name, number, box, buffer)
        return self._dataset.decode(name, number, buffer)


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
