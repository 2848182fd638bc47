"""Samples as rows: read, decoded and computed, bad ones by the policy of the stream.

A row is what an engine makes of one sample: before batch ops, where a pipeline has such. The engine
writes its outputs where they are wanted.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from stoker.dataset import Dataset
from stoker.dataset.reading.clip_dataset import ClipDataset
from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.order.stream_order import StreamOrder
from stoker.order.substitutes import MAX_ATTEMPTS
from stoker.pipeline.engine.interface import Engine
from stoker.pipeline.engine.sample_faults import TOO_LONG
from stoker.pipeline.planning.scaled_fields import stored_fields
from stoker.protocol.errors import SampleError
from stoker.protocol.spec import StreamSpec
from stoker.rng.row import Row
from stoker.server.rows.counts import RowCounts
from stoker.server.rows.joined_pipelines import DrawRecords, MixingEngine, own_freeze
from stoker.server.rows.listener import RowListener
from stoker.server.rows.row_times import RowTimes
from stoker.server.rows.sample_reader import SampleReader
from stoker.server.rows.scratch import Scratch
from stoker.server.rows.shared import SharedSamples
from stoker.server.work.work_records import BadSample

MAX_REASON = 1000
"""Characters that are kept of why a sample is bad, and of its source."""


class RowSource(NamedTuple):
    """A dataset of a stream, what computes its rows, and what times them, if anything does."""

    dataset: Dataset
    engine: Engine
    times: RowTimes | None = None


class SampleRows:
    """Computes samples of one stream, each by the engine of its dataset.

    Attributes:
        spec: the stream.
        drawn: writes the draw records of a row behind its outputs; None if they are not wanted.
        crashed: samples that are not touched, but replaced, under any policy.
    """

    def __init__(
        self,
        spec: StreamSpec,
        sources: Sequence[RowSource],
        order: StreamOrder,
        *,
        arithmetic: Arithmetic = PLAIN,
        params: bool = False,
        scratch: Scratch | None = None,
        listener: RowListener | None = None,
        shared: SharedSamples | None = None,
    ) -> None:
        """Prepare to compute samples.

        Args:
            spec: the stream.
            sources: its datasets.
            order: the stream's.
            arithmetic: how all but the engine computes.
            params: whether draw records are wanted.
            scratch: memory of this thread.
            listener: notes each sample before it is read.
            shared: what streams of a fork share.
        """
        self.spec = spec
        self._order = order
        self._listener = listener or RowListener()
        scratch = scratch or Scratch()
        self._parts = [
            _DatasetRows(spec, source, first, arithmetic, scratch, self._listener, shared)
            for source, first in zip(sources, order.firsts, strict=False)
        ]
        records = DrawRecords([source.engine for source in sources]) if params else None
        self.drawn = records if records is not None and records.row_bytes else None
        self.mixing = MixingEngine([source.engine for source in sources])
        self.crashed: Collection[int] = ()

    def write(
        self, row: Row, position: int, outputs: Sequence[np.ndarray], counts: RowCounts
    ) -> Row | None:
        """Write one row by the bad-sample policy; return the row delivered, if there is one.

        Args:
            row: which row; its id is the sample that is read.
            position: in the epoch; substitutes are drawn for it.
            outputs: one for each of the plan's, then the draw records, if they are wanted.
            counts: where faults are counted.

        Raises:
            SampleError: the sample cannot be used under policy "raise", or no substitute is good.
        """
        if row.id in self.crashed:
            counts.replaced_rows += 1
            why = SampleError(f"sample {row.id} crashed workers", id=row.id)
            return self._substitute(row, position, outputs, counts, why)
        try:
            return self._compute(row, outputs)
        except SampleError as error:
            if self.spec.on_error == "raise":
                raise
            self._note_bad(row.id, error, counts)
            if self.spec.on_error == "mask":
                counts.invalid_rows += 1
                return None
            counts.replaced_rows += 1
            return self._substitute(row, position, outputs, counts, error)

    def _note_bad(self, sample_id: int, error: SampleError, counts: RowCounts) -> None:
        """Count a bad sample; the daemon decides what becomes of it."""
        field = str(error.details.get("field", ""))
        reason = str(error.details.get("reason", error.message))[:MAX_REASON]
        part = self._parts[self._order.dataset_of(sample_id)]
        try:
            source = (part.dataset.source(sample_id - part.first_id) or "")[:MAX_REASON]
        except SampleError:
            source = ""
        counts.note_bad([BadSample(sample_id, field, source, reason)])

    def _substitute(
        self,
        bad: Row,
        position: int,
        outputs: Sequence[np.ndarray],
        counts: RowCounts,
        why: SampleError,
    ) -> Row:
        longer = 0
        for attempt in range(1, MAX_ATTEMPTS + 1):
            sample_id, visit = self._order.substitute(bad.epoch, position, bad.id, attempt)
            if sample_id in self.crashed:
                continue
            try:
                return self._compute(bad._replace(id=sample_id, visit=visit), outputs)
            except SampleError as error:
                if error.details.get(TOO_LONG):
                    longer += 1
                else:
                    self._note_bad(sample_id, error, counts)
                why = error
        remedy = "Run `stoker verify` on the dataset"
        if longer:
            remedy = (
                f"{longer} of them are longer than the other rows of this batch; use a larger batch"
                ' size, outputs.pad(..., to="bound"), or on_error="mask", or leave the sample out'
                f" with exclude=[{bad.id}]"
            )
        raise SampleError(
            f"{MAX_ATTEMPTS} substitutes for sample {bad.id} failed too, the last with: {why}. "
            + remedy,
            **why.details,
        )

    def _compute(self, row: Row, outputs: Sequence[np.ndarray]) -> Row:
        self._listener.sample_begins(row.id)
        number = self._order.dataset_of(row.id)
        if self.drawn is not None:
            *outputs, drawn = outputs
        part = self._parts[number]
        try:
            part.compute(row, outputs)
        except SampleError as error:
            if len(self._parts) == 1 or "dataset" in error.details:
                raise
            raise part.named(error, row) from error
        self.mixing.last = number
        if self.drawn is not None:
            self.drawn.write(number, drawn)
        return row


class _DatasetRows:
    """The samples of one dataset."""

    def __init__(
        self,
        spec: StreamSpec,
        source: RowSource,
        first_id: int,
        arithmetic: Arithmetic,
        scratch: Scratch,
        listener: RowListener,
        shared: SharedSamples | None,
    ) -> None:
        self.dataset, self._engine, self._times = source
        self.first_id = first_id
        plan = self._engine.plan
        self._freeze = own_freeze(spec.freeze, plan)
        kinds = {field.name: field for field in self.dataset.schema.fields}
        self._pictures = [f for f in stored_fields(plan.fields) if kinds[f].is_picture]
        self._clips = self.dataset if isinstance(self.dataset, ClipDataset) else None
        stored = self.dataset if self._clips is None else self._clips.frames
        clock = None if self._times is None else self._times.clock
        self._inputs = SampleReader(stored, plan.fields, scratch, listener, shared, clock)
        self._inputs.read_boxes(plan, self._freeze, arithmetic=arithmetic, engine=self._engine)

    def compute(self, row: Row, outputs: Sequence[np.ndarray]) -> None:
        """Write the outputs of a row; of a clip, those of its frames.

        Raises:
            SampleError: the sample cannot be used.
        """
        if self._times is None:
            self._compute(row, outputs)
        else:
            self._times.row(self._engine, partial(self._compute, row, outputs))

    def _compute(self, row: Row, outputs: Sequence[np.ndarray]) -> None:
        if self._clips is not None:
            self._compute_frames(self._clips, row, outputs)
        else:
            self._engine.run(row, self._inputs.read(row.id - self.first_id, row), outputs)

    def named(self, error: SampleError, row: Row) -> SampleError:
        """Return an error of a row that says which sample of this dataset the row is."""
        path = str(self.dataset.path)
        place = f"sample {row.id - self.first_id} of {path}"
        return SampleError(f"{error.message} ({place})", **{**error.details, "dataset": path})

    def _compute_frames(self, clips: ClipDataset, row: Row, outputs: Sequence[np.ndarray]) -> None:
        """Write the frames of a row, the first side of its outputs; all draw with the row's key."""
        clip = self._engine.plan.clip
        assert clip is not None, "only pipelines that sample frames read clips"
        frames = clips.rows(row.id - self.first_id)
        freeze = None if clip.stream is None else self._freeze.get(clip.stream)
        chosen = [frames[number] for number in clip.numbers(len(frames), row, freeze)]
        self._check_sizes(clips.frames, row, chosen)
        for place, number in enumerate(chosen):
            inputs = self._inputs.read(number, row)
            self._engine.run(row, inputs, [output[place, ...] for output in outputs])

    def _check_sizes(self, frames: Dataset, row: Row, chosen: Sequence[int]) -> None:
        """Refuse frames of several sizes: the same draws would choose other boxes of them."""
        for name in self._pictures:
            sizes = {frames.size(name, number) for number in chosen}
            if len(sizes) > 1:
                shown = " and ".join(f"{high}x{wide}" for high, wide in sorted(sizes))
                raise SampleError(
                    f"sample {row.id}: expected frames of one size, which share each decision, got "
                    f"{shown} pixels (height x width) in field {name!r}: resize them when packing",
                    id=row.id,
                    field=name,
                )
