"""The fields of one sample, decoded as far as its row reads them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stoker.dataset import Dataset
from stoker.jit.arithmetic import PLAIN, Arithmetic
from stoker.ops.bases.scaled_box import ScaledBox
from stoker.pipeline.compiled.executor import Executor
from stoker.pipeline.compiled.window_program import Windows
from stoker.pipeline.engine.interface import Engine, Freeze
from stoker.pipeline.engine.stage_clock import DECODE, OTHER, READ, StageClock
from stoker.pipeline.plain.plain_windows import PlainWindows
from stoker.pipeline.planning.decoded_boxes import Box, scaled_ops
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.planner import shorten
from stoker.pipeline.planning.scaled_fields import is_scaled, only_sizes, stored_field
from stoker.protocol.errors import SampleError
from stoker.rng.row import Row
from stoker.server.rows.listener import RowListener
from stoker.server.rows.scratch import Decoded, Scratch
from stoker.server.rows.shared import SharedSamples


class SampleReader:
    """Reads the fields that a plan wants, decoding into buffers made once.

    The pixels decoded last are kept: the views of a position follow each other, and a sample of
    which they read the same box is decoded once for all of them. Engines never write their inputs.

    Attributes:
        damage: field -> why it could not be decoded outside of the box that was read last; only
            fields that were delivered nevertheless, see `read_boxes`.
    """

    def __init__(
        self,
        dataset: Dataset,
        names: Sequence[str],
        scratch: Scratch | None = None,
        listener: RowListener | None = None,
        shared: SharedSamples | None = None,
        clock: StageClock | None = None,
    ) -> None:
        """Prepare to read.

        Args:
            dataset: what is read.
            names: the fields that are wanted.
            scratch: memory of this thread; None: memory of its own.
            listener: notes each value that is decoded.
            shared: what streams of a fork share; None: it belongs to none.
            clock: of rows that are timed; None: none is.
        """
        self._shared = shared
        self._clock = clock
        self._dataset = dataset
        self._listener = listener or RowListener()
        self._names = tuple(names)
        self._stored = {name: stored_field(name) for name in names}
        self._scratch = scratch or Scratch()
        self._decoded = self._scratch.reserve(dataset, self._names)
        self._sized = only_sizes(self._names)
        whole = self._decoded - self._sized
        self._pictures = [f for f in dataset.schema.fields if f.name in whole]
        self._scaled: dict[str, ScaledBox] = {}
        self._windows: Windows | PlainWindows | None = None
        self._asked: tuple[tuple[str, str], ...] = ()
        self._box_only = False
        self._engine: Executor | None = None
        self.damage: dict[str, str] = {}

    def read_boxes(
        self,
        plan: Plan,
        freeze: Freeze | None,
        *,
        arithmetic: Arithmetic = PLAIN,
        engine: Engine | None = None,
    ) -> None:
        """From now on an image counts as damaged only if the box that the row reads is damaged.

        The boxes are those that workers read, with the shortcuts of their plans. Compiled, nothing
        but the box is decoded. In plain Python an image is decoded as by workers, and then whole
        by libjpeg; if that fails, the box alone is decoded, with black around it.

        Args:
            plan: whose rows are computed; compiled, that of workers.
            freeze: of the stream.
            arithmetic: which way.
            engine: computes the rows next; one that is compiled takes over what is drawn for the
                boxes. None: it is drawn again.
        """
        self._engine = engine if isinstance(engine, Executor) else None
        parts = [field.name for field in self._dataset.schema.fields if field.has_parts]
        parts += filter(is_scaled, self._names)
        self._box_only = arithmetic.is_compiled
        self._windows = None
        if set(parts).isdisjoint(self._names):
            return
        windows = (
            Windows(plan, parts, freeze, self._engine.record_table if self._engine else None)
            if arithmetic.is_compiled
            else PlainWindows(shorten(plan), parts, freeze)
        )
        self._windows = windows if windows.fields else None
        self._asked = tuple((name, stored_field(name)) for name in windows.sized)
        self._scaled = scaled_ops(plan)

    def read(self, sample_id: int, row: Row | None = None) -> list[Any]:
        """Return the fields of one sample, valid until the next call.

        Args:
            sample_id: which sample.
            row: which row will be computed of it; None if anything may be read, and whole images.

        Raises:
            SampleError: a value is damaged, or the row is not what was packed.
        """
        self._enter(READ)
        if self._dataset.check_row is not None:
            self._dataset.check_row(sample_id)
        if self._decoded:
            self._enter(DECODE)
        whole = self._read_shared(sample_id) if self._shared is not None else {}
        boxes: dict[str, Box] = {}
        if row is not None and self._windows is not None and not whole.keys() >= self._decoded:
            boxes = self._boxes(self._windows, sample_id, row)
        read = [
            whole[name] if name in whole else self._field(name, sample_id, boxes)
            for name in self._names
        ]
        self._enter(OTHER)
        return read

    def _boxes(self, windows: Windows | PlainWindows, sample_id: int, row: Row) -> dict[str, Box]:
        """Return the box that a row reads of each field; none if a size is damaged."""
        size = self._dataset.size
        sizes = {name: size(field, sample_id) for name, field in self._asked}
        for high, wide in sizes.values():
            if high < 1 or wide < 1:
                return {}  # decoding will reject it
        boxes = windows.boxes(row, sizes)
        if self._engine is not None and isinstance(windows, Windows):
            self._engine.take_records(row, windows.drawn)
        return boxes

    def _enter(self, stage: int) -> None:
        """Begin a stage; the time from now on counts for it, if the row is timed."""
        self._listener.stage_begins(stage)
        if self._clock is not None and self._clock.runs:
            self._clock.enter(stage)

    def _read_shared(self, sample_id: int) -> dict[str, np.ndarray]:
        """Return the fields that are decoded for several streams."""
        if self._shared is None:
            return {}
        found = {}
        for field in self._pictures:
            pixels = self._shared.read(self._dataset, field, sample_id, self._listener)
            if pixels is not None:
                found[field.name] = pixels
        return found

    def _field(self, name: str, sample_id: int, boxes: dict[str, Box]) -> Any:
        field = self._stored[name]
        if field not in self._decoded:
            self._enter(READ)
            return self._dataset.read(field, sample_id)
        self._enter(DECODE)
        if name in self._sized:
            return self._sized_only(name, sample_id, self._scratch.buffers[name])
        box = boxes.get(name)
        last = self._scratch.decoded.pop(name, None)  # dropped if this one cannot be decoded
        divisor = self._scaled[name].divisor(box) if name in self._scaled and box else 1
        part = sample_id, box, divisor
        if last is None or last.dataset is not self._dataset or last[1:4] != part:
            pixels = self._decode(name, *part, self._scratch.buffers[name])
            last = Decoded(self._dataset, *part, pixels)
        self._scratch.decoded[name] = last
        return last.pixels

    def _decode(
        self, name: str, sample_id: int, box: Box | None, divisor: int, buffer: np.ndarray
    ) -> Any:
        self.damage.pop(name, None)
        self._listener.decode_begins()
        if is_scaled(name) and box is not None:
            return self._decode_scaled(name, sample_id, box, divisor, buffer)
        name = stored_field(name)
        if box is None:
            read = self._dataset.decode(name, sample_id, buffer, compiled=True)
        else:
            read = self._dataset.decode_box(name, sample_id, box, buffer)
        if self._box_only:
            return read
        try:
            return self._dataset.decode(name, sample_id, buffer)
        except SampleError as error:
            if box is None:
                raise
            self.damage[name] = str(error.details["reason"])
        buffer[:] = 0
        return self._dataset.decode_box(name, sample_id, box, buffer)

    def _sized_only(self, name: str, sample_id: int, buffer: np.ndarray) -> Any:
        """Return an image of which only the size is used; in plain Python for people to see."""
        if not self._box_only:
            try:
                return self._dataset.decode(name, sample_id, buffer)
            except SampleError:
                buffer[:] = 0
        return self._dataset.undecoded(name, sample_id, buffer)

    def _decode_scaled(
        self, name: str, sample_id: int, box: Box, divisor: int, buffer: np.ndarray
    ) -> Any:
        """Decode a box at a fraction; in plain Python the whole image, as `_decode` does."""
        given = (stored_field(name), sample_id, divisor, box, buffer)
        read = self._dataset.decode_scaled(*given)
        if self._box_only:
            return read
        try:
            return self._dataset.decode_scaled(*given, whole=True)
        except SampleError as error:
            self.damage[name] = str(error.details["reason"])
        buffer[:] = 0
        return self._dataset.decode_scaled(*given)
