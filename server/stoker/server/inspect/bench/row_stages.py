"""Measures what a row costs one worker, stage by stage, in this process on one thread.

Rows are those of a shuffled epoch, in its order, so files are read as in training. Each row goes
through these stages in order, with a clock between them:

- read: finding the sample and touching its stored bytes, a byte of each page;
- splice: drawing the crop and cutting its part out of a JPEG with a grid;
- decode: the rest of making pixels of it;
- ops: the compiled pipeline, into memory that is in the cache;
- write: copying the result into memory that is not. The pipeline writes it there itself, so this
  bounds what that costs.

If a plan runs whole chunks in one call, the stages are measured over chunks. The call then reads
samples in place, and "read" only finds them. `rows_per_s` is the rate of the same code as in a
worker, without clocks. Times are means in seconds.
"""

import time
from dataclasses import dataclass, field

import numpy as np

from stoker.dataset import Dataset
from stoker.dataset.images.jpeg import Splicer
from stoker.dataset.images.orientation import stored_box, upright_size
from stoker.dataset.limits import CodecError
from stoker.jit.arithmetic import COMPILED
from stoker.order.stream_order import RowColumns, StreamOrder
from stoker.pipeline.compiled.executor import Executor, compile_plan
from stoker.pipeline.compiled.window_program import Windows
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.scaled_fields import stored_field
from stoker.protocol.slot_layout import slot_layout
from stoker.protocol.spec import StreamSpec
from stoker.rng.row import Row
from stoker.server.inspect.bench.host_load import busy_cpu_s, waited_cpu_s
from stoker.server.rows.chunks import ChunkComputer, chunk_computer
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_reader import SampleReader
from stoker.server.rows.sample_rows import RowSource

STAGES = ("read", "splice", "decode", "ops", "write")
COLD_BYTES = 2**26
PAGE_BYTES = 4096
CHUNK = 128
WARM_ROWS = 8
_Ids = tuple[np.ndarray, np.ndarray]


@dataclass
class Stages:
    """The results.

    Attributes:
        seconds: stage -> mean seconds of a row.
        rows: how many rows that is the mean of.
        rows_per_s: rate of one worker's code, without clocks between stages.
        in_chunks: whether rows are computed many at a time.
        decoded_in_part: fields of which a row decodes only a part.
        waited: part of the time in which this thread waited for a processor, 0 to 1.
        others: processors that other processes kept busy meanwhile.
    """

    seconds: dict[str, float]
    rows: int
    rows_per_s: float
    in_chunks: bool
    decoded_in_part: list[str] = field(default_factory=list)
    waited: float = 0.0
    others: float = 0.0


def measure_stages(
    spec: StreamSpec, order: StreamOrder, dataset: Dataset, plan: Plan, seconds: float
) -> Stages:
    """Measure for about that many seconds.

    Args:
        spec: of a stream over the dataset, without buckets.
        order: its order, compiled.
        dataset: where the samples come from.
        plan: of the pipeline, as workers run it.
        seconds: half for the stages, half for the rate.

    Raises:
        SampleError: a sample cannot be used.
    """
    engine, shuffled = compile_plan(plan), _shuffled(order)
    chunks = chunk_computer(engine, dataset)
    begun = time.perf_counter(), time.process_time(), busy_cpu_s(), waited_cpu_s()
    if chunks is not None:
        found = _chunk_stages(spec, engine, chunks, seconds / 2, shuffled)
    else:
        found = _row_stages(spec, dataset, engine, seconds / 2, shuffled)
    found.rows_per_s = _rate(spec, dataset, engine, seconds / 2, order)
    ended = time.perf_counter(), time.process_time(), busy_cpu_s(), waited_cpu_s()
    took_s, own_s, busy_s, waited_s = (end - begin for begin, end in zip(begun, ended, strict=True))
    found.waited = waited_s / took_s
    found.others = max(busy_s - own_s, 0.0) / took_s
    return found


def _row_stages(
    spec: StreamSpec, dataset: Dataset, engine: Executor, seconds: float, order: _Ids
) -> Stages:
    plan, reader = engine.plan, SampleReader(dataset, engine.plan.fields)
    reader.read_boxes(plan, None, arithmetic=COMPILED)
    splicer = _Splicer(dataset, plan)
    outputs = [np.zeros(output.shape, output.dtype) for output in plan.outputs]
    cold = _Cold(outputs)
    sums, rows = dict.fromkeys(STAGES, 0.0), -WARM_ROWS
    ids, visits = order
    begun, clock = time.perf_counter(), time.perf_counter
    while rows < WARM_ROWS or clock() - begun < seconds:
        if rows == 0:  # what came before warmed caches and loaded code
            sums, begun = dict.fromkeys(STAGES, 0.0), clock()
        number = int(ids[rows % len(ids)])
        row = Row(spec.seed, number, max(rows, 0) // len(ids), int(visits[rows % len(ids)]), 0)
        t0 = clock()
        for name in plan.fields:
            _touch(dataset.read(stored_field(name), number))
        t1 = clock()
        splicer.run(row)
        t2 = clock()
        values = reader.read(number, row)
        t3 = clock()
        engine.run(row, values, outputs)
        t4 = clock()
        cold.write()
        t5 = clock()
        spent = (t1 - t0, t2 - t1, max(t3 - t2 - (t2 - t1), 0.0), t4 - t3, t5 - t4)
        for stage, part_s in zip(STAGES, spent, strict=True):
            sums[stage] += part_s
        rows += 1
    means = {stage: total / rows for stage, total in sums.items()}
    return Stages(means, rows, 0.0, in_chunks=False, decoded_in_part=list(splicer.fields))


def _chunk_stages(
    spec: StreamSpec, engine: Executor, chunks: ChunkComputer, seconds: float, order: _Ids
) -> Stages:
    outputs = [np.zeros((CHUNK, *o.shape), o.dtype) for o in engine.plan.outputs]
    cold = _Cold(outputs)
    sums, rows = dict.fromkeys(STAGES, 0.0), -CHUNK
    ids, visits = order
    begun, clock = time.perf_counter(), time.perf_counter
    while rows < CHUNK or clock() - begun < seconds:
        if rows == 0:
            sums, begun = dict.fromkeys(STAGES, 0.0), clock()
        picked = np.arange(rows, rows + CHUNK) % len(ids)
        none = np.zeros_like(picked)
        table = RowColumns(ids[picked], visits[picked], none, none, none)
        t0 = clock()
        chunks.fields.locate(table.ids)
        t1 = clock()
        chunks.compute(spec.seed, table, outputs)
        t2 = clock()
        cold.write()
        t3 = clock()
        sums["read"] += t1 - t0
        sums["ops"] += max(t2 - t1 - (t1 - t0), 0.0)
        sums["write"] += t3 - t2
        rows += CHUNK
    return Stages({s: total / rows for s, total in sums.items()}, rows, 0.0, in_chunks=True)


def _rate(
    spec: StreamSpec, dataset: Dataset, engine: Executor, seconds: float, order: StreamOrder
) -> float:
    layout = slot_layout(engine.plan.delivered, spec.batch_size)
    computer = RowComputer(
        spec, [RowSource(dataset, engine)], layout, arithmetic=COMPILED, order=order
    )
    slot = np.zeros(layout.slot_bytes, np.uint8)
    rows, low = 0, 0
    step = min(spec.batch_size, spec.epoch_rows)
    computer.fill(slot, 0, 0, 0, min(8, step))
    begun = time.perf_counter()
    while not rows or time.perf_counter() - begun < seconds:
        high = min(low + 32, step)
        computer.fill(slot, rows // step, 0, low, high)
        rows += high - low
        low = high % step
    return rows / (time.perf_counter() - begun)


class _Cold:
    """Memory that is not in the cache, to which results are copied."""

    def __init__(self, results: list[np.ndarray]) -> None:
        self._parts = [array.reshape(-1).view(np.uint8) for array in results if array.nbytes]
        self._memory = np.zeros(COLD_BYTES, np.uint8)
        self._place = 0

    def write(self) -> None:
        """Copy the results, as they are now, behind those before."""
        for part in self._parts:
            start = self._place if self._place + part.size <= COLD_BYTES else 0
            self._memory[start : start + part.size] = part[: COLD_BYTES - start]
            self._place = start + part.size


class _Splicer:
    """Draws the part of each picture that a row reads, and cuts it out, as a worker does."""

    def __init__(self, dataset: Dataset, plan: Plan) -> None:
        names = [f.name for f in dataset.schema.fields if f.has_parts]
        self._dataset = dataset
        self._windows = Windows(plan, names)
        self.fields = self._windows.fields
        self._splicer = Splicer()

    def run(self, row: Row) -> None:
        """Cut out the parts that a row reads.

        Raises:
            SampleError: a picture or its grid is damaged.
        """
        if not self.fields:
            return
        sizes = {name: self._dataset.size(name, row.id) for name in self._windows.sized}
        for name, box in self._windows.boxes(row, sizes).items():
            grid = self._dataset.grid(name, row.id)
            if grid is None:
                continue
            turn = self._dataset.orientation(name, row.id)
            stored = upright_size(*sizes[name], turn)
            data = self._dataset.read(name, row.id)
            assert isinstance(data, memoryview)
            inner = stored_box(box, stored, turn)
            try:
                self._splicer.cut(data, grid, stored, inner, stored[0] * stored[1])
            except CodecError as error:
                reason = f"cannot decode it: {error}"
                raise self._dataset.sample_error(name, row.id, reason) from None


def _shuffled(order: StreamOrder) -> _Ids:
    """Return ids and visits of the begin of an epoch."""
    (deck,) = order.rows_of
    found = deck.lookup(0, 0, min(deck.rows, 2**16))
    return found.ids, found.visits


def _touch(value: object) -> None:
    if isinstance(value, memoryview):
        np.frombuffer(value, np.uint8)[::PAGE_BYTES].sum()
    elif isinstance(value, np.ndarray) and value.ndim:
        value.reshape(-1).view(np.uint8)[::PAGE_BYTES].sum()
