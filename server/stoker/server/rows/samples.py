"""Samples as rows: read, decoded and computed, bad ones by the policy of the stream.

A row is what an engine makes of one sample: before batch ops, where a pipeline has such. No
pixel-sized memory is allocated after construction: encoded fields are decoded into buffers of their
bound, and the engine writes its outputs where they are wanted.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from stoker.dataset import Dataset
from stoker.order.stream import StreamOrder
from stoker.order.substitutes import MAX_ATTEMPTS
from stoker.pipeline.compiled.windows import Windows
from stoker.pipeline.engine.drawing import Recorder
from stoker.pipeline.engine.faults import TOO_LONG
from stoker.pipeline.engine.interface import Engine, Freeze
from stoker.pipeline.plain.windows import PlainWindows
from stoker.pipeline.planning.boxes import Box
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.errors import SampleError
from stoker.protocol.spec import StreamSpec
from stoker.rng.row import Row
from stoker.server.rows.places import Place, RowCounts
from stoker.server.rows.states import worker_plan
from stoker.server.work.records import BadSample

ENCODED = ("jpeg", "png", "encoded", "bands")
MAX_REASON = 1000
"""Characters that are told of why a sample is bad, or of its source."""
Begun = Callable[[int], None]


def nothing(number: int) -> None:
    """Hear of a row or a sample and do nothing."""


class SampleRows:
    """Computes samples of one stream.

    Attributes:
        spec: the stream.
        engine: computes the rows.
        drawn: writes the draw records of a row behind its outputs; None if nobody wants them.
        begun: called with each sample before it is read.
        crashed: samples that are not touched, but replaced, whatever the policy.
    """

    def __init__(
        self,
        spec: StreamSpec,
        dataset: Dataset,
        engine: Engine,
        order: StreamOrder,
        *,
        machine: bool = False,
        params: bool = False,
        beside: "SampleRows | None" = None,
    ) -> None:
        """Prepare to compute samples.

        Args:
            spec: the stream.
            dataset: what it reads.
            engine: computes rows of its pipeline.
            order: the stream's.
            machine: use machine code wherever there is some.
            params: whether draw records are wanted.
            beside: another one on this thread, whose memory for samples is used.
        """
        self.spec = spec
        self.engine = engine
        self._dataset = dataset
        self._order = order
        reader: SampleReader | None = beside._inputs if beside is not None else None
        self._inputs: SampleReader = SampleReader(dataset, engine.plan.fields, reader)
        self._inputs.read_boxes(engine.plan, spec.freeze, machine=machine)
        self.drawn = Recorder(engine) if params else None
        self.begun: Begun = nothing
        self.crashed: Collection[int] = ()

    def write(
        self,
        number: int,
        visit: int,
        place: Place,
        outputs: Sequence[np.ndarray],
        counts: RowCounts,
    ) -> Row | None:
        """Write one sample by the bad-sample policy; return the row delivered, if there is one.

        Args:
            number: the sample's id.
            visit: how often it came before in the epoch.
            place: of the row.
            outputs: one for each of the plan's, then the draw records, if they are wanted.
            counts: what happens is counted there.

        Raises:
            SampleError: the sample cannot be used under policy "raise", or no substitute is good.
        """
        if number in self.crashed:
            counts.replaced_rows += 1
            why = SampleError(f"sample {number} crashed workers", id=number)
            return self._substitute(number, place, outputs, counts, why)
        try:
            return self._compute(number, visit, place, outputs)
        except SampleError as error:
            if self.spec.on_error == "raise":
                raise
            self._note_bad(number, error, counts)
            if self.spec.on_error == "mask":
                counts.invalid_rows += 1
                return None
            counts.replaced_rows += 1
            return self._substitute(number, place, outputs, counts, error)

    def _note_bad(self, number: int, error: SampleError, counts: RowCounts) -> None:
        """Remember a bad sample; whoever runs the workers says what becomes of it."""
        field = str(error.details.get("field", ""))
        reason = str(error.details.get("reason", error.message))[:MAX_REASON]
        try:
            source = (self._dataset.source(number) or "")[:MAX_REASON]
        except SampleError:
            source = ""
        counts.note_bad([BadSample(number, field, source, reason)])

    def _substitute(
        self,
        bad: int,
        place: Place,
        outputs: Sequence[np.ndarray],
        counts: RowCounts,
        why: SampleError,
    ) -> Row:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            number, visit = self._order.substitute(place.epoch, place.position, bad, attempt)
            if number in self.crashed:
                continue
            try:
                return self._compute(number, visit, place, outputs)
            except SampleError as error:
                if not error.details.get(TOO_LONG):
                    self._note_bad(number, error, counts)
                why = error
        raise SampleError(
            f"{MAX_ATTEMPTS} substitutes for sample {bad} failed too, the last with: {why}. "
            "Run `stoker verify` on the dataset",
            **why.details,
        )

    def _compute(self, number: int, visit: int, place: Place, outputs: Sequence[np.ndarray]) -> Row:
        self.begun(number)
        if self.drawn is not None:
            *outputs, drawn = outputs
        where = (place.epoch, visit, place.view, place.step, place.progress)
        row = Row(self.spec.seed, number, *where)
        self.engine.run(row, self._inputs.read(number, row), outputs)
        if self.drawn is not None:
            self.drawn.write(drawn)
        return row


class SampleReader:
    """Reads the fields that a plan wants, decoding into buffers made once.

    What was decoded last stays: the views of a position come one after the other, and a sample of
    which they need the same is decoded once for all of them. Engines never write their inputs.

    Attributes:
        damage: field -> why it could not be decoded outside of the box that was read last, of those
            that were shown nevertheless; see `read_boxes`.
    """

    def __init__(
        self, dataset: Dataset, names: Sequence[str], beside: "SampleReader | None" = None
    ) -> None:
        """Prepare to read.

        Args:
            dataset: what is read.
            names: the fields that are wanted.
            beside: another reader of that dataset on this thread, whose memory is used.
        """
        fields = {field.name: field for field in dataset.schema.fields}
        self._dataset = dataset
        self._names = tuple(names)
        self._buffers: dict[str, np.ndarray] = beside._buffers if beside else {}
        for name in names:
            if fields[name].encoding in ENCODED and name not in self._buffers:
                self._buffers[name] = np.empty(fields[name].bound_bytes, np.uint8)
        self._windows: Windows | PlainWindows | None = None
        self._alone = False
        self._decoded: dict[str, tuple[int, Box | None, Any]] = beside._decoded if beside else {}
        self.damage: dict[str, str] = {}

    def read_boxes(self, plan: Plan, freeze: Freeze | None, *, machine: bool = False) -> None:
        """From now on a picture is bad where what a row reads of it is bad, and nowhere else.

        The boxes are those that workers read, with the shortcuts of their plans. Machine code
        decodes nothing besides; in plain Python a picture is decoded whole, and only if that fails
        the box alone, with black around it.

        Args:
            plan: whose rows are computed; for machine code that of workers.
            freeze: of the stream.
            machine: as above.
        """
        parts = [field.name for field in self._dataset.schema.fields if field.has_parts]
        self._alone = machine
        self._windows = None
        if set(parts).isdisjoint(self._names):
            return
        windows = (
            Windows(plan, parts, freeze)
            if machine
            else PlainWindows(worker_plan(plan.graph, self._dataset), parts, freeze)
        )
        self._windows = windows if windows.fields else None

    def read(self, number: int, row: Row | None = None) -> list[Any]:
        """Return the fields of one sample, valid until the next call.

        Args:
            number: the sample's id.
            row: which row will be computed of it; None if anything may be read.
        """
        boxes: dict[str, Box] = {}
        if row is not None and self._windows is not None:
            sizes = {name: self._dataset.size(name, number) for name in self._windows.sized}
            if min(min(size) for size in sizes.values()) > 0:  # else decoding will refuse it
                boxes = self._windows.boxes(row, sizes)
        return [self._field(name, number, boxes) for name in self._names]

    def _field(self, name: str, number: int, boxes: dict[str, Box]) -> Any:
        buffer = self._buffers.get(name)
        if buffer is None:
            return self._dataset.read(name, number)
        box = boxes.get(name)
        last = self._decoded.pop(name, None)  # left out if this one cannot be decoded
        if last is None or last[:2] != (number, box):
            last = (number, box, self._decode(name, number, buffer, box))
        self._decoded[name] = last
        return last[2]

    def _decode(self, name: str, number: int, buffer: np.ndarray, box: Box | None) -> Any:
        self.damage.pop(name, None)
        if box is None:
            return self._dataset.decode(name, number, buffer)
        read = self._dataset.decode_box(name, number, box, buffer)
        if self._alone:
            return read
        try:
            return self._dataset.decode(name, number, buffer)
        except SampleError as error:
            self.damage[name] = str(error.details["reason"])
        buffer[:] = 0
        return self._dataset.decode_box(name, number, box, buffer)
