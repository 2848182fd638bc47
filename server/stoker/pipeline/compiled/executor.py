"""The executor: a plan as machine code, for one thread of a worker.

`compile_plan` writes the plan's program, compiles the functions that it calls (or loads them from
the disk cache), and wraps it. `Executor.run` computes one row: a few numbers are written into
tables, and one compiled call does the rest, without the interpreter lock and without allocating
anything that grows with the pixels: inputs come from the caller, outputs are in the slot, and
everything in between is in the arena, which is allocated once. `run_rows` does a chunk in one call.

numba errors never reach a user: the error names the op whose kernel cannot be typed instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import addressof, c_char
from typing import Any

import numpy as np

from stoker.jit.compiling import is_disabled
from stoker.ops.custom.python_call import failure
from stoker.pipeline.compiled.emitter import bits
from stoker.pipeline.compiled.loop_instructions import DECISIONS_AT, GIVEN_RECORD
from stoker.pipeline.compiled.machine import Machine
from stoker.pipeline.compiled.program import write_program
from stoker.pipeline.compiled.proof import prove
from stoker.pipeline.compiled.retelling import MachineRaised, retold, suspects
from stoker.pipeline.engine.following import Follower
from stoker.pipeline.engine.interface import Freeze, check_freeze
from stoker.pipeline.engine.sample_addresses import RowSamples, check_samples
from stoker.pipeline.engine.sample_faults import call_error, sample_error
from stoker.pipeline.engine.shown_program import Sign
from stoker.pipeline.engine.stage_clock import StageClock
from stoker.pipeline.plain.plain_arrays import check_arrays
from stoker.pipeline.planning.engine_tables import (
    aligned_arena,
    params_table,
    plain_record,
    records_table,
    streams_table,
)
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.errors import BuildError, UsageError
from stoker.protocol.slot_layout import ALIGN
from stoker.rng.row import Row, row_of, write_row

AHEAD_BYTES = 4096
"""Bytes of a sample to prefetch before its row is computed; the processor fetches the rest."""
_KEYS: np.dtype[Any] = np.dtype(np.uint64)
_VALUES: Any = (np.ndarray, np.generic)
_char_at: Any = c_char.from_buffer


def compile_plan(
    plan: Plan,
    freeze: Freeze | None = None,
    arena: np.ndarray | None = None,
    sign: Sign | None = None,
) -> Executor:
    """Compile a plan, or load it from the disk cache.

    Args:
        plan: what `bind` returned.
        freeze: stream name -> the integer that replaces (id, epoch, visit, view), or "epoch".
        arena: scratch memory to use, from `aligned_arena`; executors on one thread may share it.
            None, or if it is too small: the executor allocates its own.
        sign: shows another process which op runs; None: nothing does.

    Raises:
        BuildError: the kernel of an op cannot be compiled; names the op, its file and line.
        ResourceError: the kernel cache cannot be written.
        UnknownNameError: a freeze names a stream that the plan does not have.
        UsageError: a freeze is neither an integer nor "epoch".
    """
    return Executor(plan, freeze, arena, sign)


class Executor:
    """Computes rows of a plan by machine code; see `stoker.pipeline.engine.interface.Engine`.

    Not to be shared between threads: the arena and the tables belong to the current row.

    Attributes:
        plan: the plan.
        arena: its scratch memory.
        ops: names of its ops, in the order of their stages.
        clock: times the row that it `begin`s; None: no row is timed.
    """

    def __init__(
        self,
        plan: Plan,
        freeze: Freeze | None = None,
        arena: np.ndarray | None = None,
        sign: Sign | None = None,
    ) -> None:
        """Compile or load what the plan calls; see `compile_plan`."""
        if is_disabled():
            raise BuildError(
                "NUMBA_DISABLE_JIT is set, so this process cannot compile a pipeline: unset it in "
                "the environment of the program, or of the daemon"
            )
        self.plan = plan
        program = write_program(plan)
        prove(plan, program)
        self._steps, self._progress = program.step, program.progress
        self.ops = program.ops
        self.clock: StageClock | None = None
        params = params_table(plan.decisions)
        self._records = records_table(plan.decisions)
        self._follower = Follower(plan, params)
        self._freeze = check_freeze(plan, freeze)
        streams = streams_table(plan.decisions, self._freeze)
        if arena is None or arena.size < plan.arena_bytes:
            arena = aligned_arena(plan.arena_bytes, ALIGN)
        self.arena = arena
        self._machine = Machine(
            program,
            len(plan.inputs),
            len(plan.outputs),
            streams,
            params,
            self._records,
            arena,
            sign,
        )
        self._rows = np.zeros((1, 4), np.uint64)
        self._row = self._rows[0]
        self._samples = np.zeros((len(plan.inputs), 1), np.int64)
        self._found = self._machine.found
        self._made = self._found[DECISIONS_AT:]
        self._outs = tuple((np.dtype(o.dtype), o) for o in plan.outputs)
        self._ins = tuple((np.dtype(s.dtype), len(s.shape)) for s in plan.inputs)
        self._scalars: tuple[Any, ...] = tuple(
            None if state.shape else np.zeros(1, state.dtype) for state in plan.inputs
        )
        for place, scalar in enumerate(self._scalars):
            if scalar is not None:
                self._samples[place, 0] = scalar.ctypes.data
        self._given: tuple[Row, Sequence[int]] | None = None
        self._forget_shapes()
        self._calls = any(d.op.calls_python for d in plan.decisions)

    def run(self, row: Row, inputs: Sequence[Any], outputs: Sequence[np.ndarray]) -> None:
        """Compute one row; see `Engine.run`.

        Raises:
            SampleError: sizes do not fit, or do not match each other.
            UsageError: inputs or outputs differ from the plan in number, dtype or rank.
        """
        write_row(self._row, row)
        self._made.fill(0)
        given, self._given = self._given, None
        if given is not None and given[0] == row:
            for decision in given[1]:
                self._made[decision] = GIVEN_RECORD
        if self._follower.active and self._follower.follow(row):
            self._place(row)
        try:
            read = inputs
            if not (self._takes_outputs(outputs) and self._takes_inputs(inputs)):
                read = self._take_checked(inputs, outputs)
            status = self._go(self._rows, self._samples)
            del read  # until now the machine has read copies that only `read` holds
        except MachineRaised as raised:
            raise retold(self.plan, self._freeze, [(row, inputs)], raised.error) from raised.error
        self._end(status, row)

    @property
    def record_table(self) -> np.ndarray:
        """The records of the next row, (1,) structured: fields d0, d1, ...

        Records that are drawn ahead of `run` are written here, then passed to `take_records`.
        """
        return self._records

    def take_records(self, row: Row, decisions: Sequence[int]) -> None:
        """Accept records in `record_table` that were drawn for a row: for the next `run` alone.

        Args:
            row: the row.
            decisions: indices of the decisions that were drawn.
        """
        self._given = (row, decisions)

    def _place(self, row: Row) -> None:
        """Write the facts of a row's place in the stream that conditions read."""
        if self._steps:
            self._machine.values[self._steps, 0] = row.step
        if self._progress and row.progress is not None:
            self._machine.values[self._progress, 0] = bits(row.progress)

    @property
    def runs_chunks(self) -> bool:
        """True if `run_rows` computes rows of this plan in one compiled call."""
        return not self._follower.active and not self._calls

    def room_for_records(self, count: int) -> np.ndarray:
        """Return empty records for rows, (count,) structured: fields d0, d1, ..."""
        return np.zeros(count, self._records.dtype)

    def run_rows(
        self,
        rows: np.ndarray,
        samples: RowSamples,
        outputs: Sequence[np.ndarray],
        records: np.ndarray | None = None,
    ) -> None:
        """Compute a chunk in one compiled call.

        Args:
            rows: (n, 4) uint64, see `stoker.rng.row`.
            samples: the addresses of those of each row, in the order of `plan.fields`; read there,
                never copied.
            outputs: one for each of `plan.outputs`, with a leading axis of n rows; contiguous.
            records: an array from `room_for_records(n)` for the draws of the rows; a decision that
                a row does not make leaves its record unchanged. None: they are not kept.

        Raises:
            SampleError: a sample does not fit; `details["place"]` is its index in `rows`.
            UsageError: an array or sample differs from the plan in dtype or shape.
        """
        count = rows.shape[0]
        if self._follower.active:
            raise UsageError(
                "run_rows: the pipeline follows a schedule, and a table of rows does not contain "
                "their steps: use run, row by row"
            )
        self._check_chunk(rows, outputs)
        check_samples(self.plan, samples, count)
        if records is not None and not _is_plain(records, self._records.dtype, (count,)):
            raise _unexpected("records", records, self._records.dtype, (count,))
        if not count:
            return
        self._given = None
        self._forget_shapes()
        for place, (dtype, sides) in enumerate(samples.columns):
            self._machine.sides[place, : len(sides)] = sides
            self._machine.ahead[place] = min(dtype.itemsize * math.prod(sides), AHEAD_BYTES)
        if not self._calls:
            self._run_chunk(rows, samples.addresses, outputs, 0, records)
            return
        for place in range(count):  # a function's failure stops at its row, and names it
            one = slice(place, place + 1)
            parts = [out[one] for out in outputs]
            addresses = np.ascontiguousarray(samples.addresses[:, one])
            kept = None if records is None else records[one]
            self._run_chunk(rows[one], addresses, parts, place, kept)

    def _run_chunk(
        self,
        rows: np.ndarray,
        samples: np.ndarray,
        outputs: Sequence[np.ndarray],
        first: int,
        records: np.ndarray | None,
    ) -> None:
        machine = self._machine
        for place, out in enumerate(outputs):
            step = out.itemsize * math.prod(out.shape[1:])
            machine.outs[place, : 1 + out.ndim] = (out.ctypes.data, step, *out.shape[1:])
        self._made.fill(0)
        try:
            status = self._go(rows, samples, records)
        except MachineRaised as raised:
            some = suspects(rows, samples, machine.sides, self._made, self.plan)
            raise retold(self.plan, self._freeze, some, raised.error) from raised.error
        place = int(self._found[0]) if status else 0
        if status or self._calls:
            self._end(status, row_of(rows[place]), place=first + place)

    def records(self) -> list[dict[str, Any]]:
        """Return the records of the last row, one entry for each decision that is drawn.

        A decision in a branch that was not taken shows what it decided for an earlier row.
        """
        return [
            {"op": d.op.name, "stream": d.stream, "record": plain_record(self._records, d)}
            for d in self.plan.decisions
            if d.source is None
        ]

    def record_of(self, index: int) -> bytes | None:
        """Return what a decision drew for the last row of `run`; see `Engine`."""
        return self._records[f"d{index}"].tobytes() if self._made[index] > 0 else None

    def _takes_outputs(self, outputs: Sequence[Any]) -> bool:
        """Write where outputs are, if they are just as the plan says; otherwise return False."""
        if len(outputs) != len(self._outs):
            return False
        machine = self._machine
        for place, (out, (dtype, output)) in enumerate(zip(outputs, self._outs, strict=True)):
            if not (isinstance(out, np.ndarray) and out.dtype == dtype and out.flags.carray):
                return False
            if out.shape != self._out_shapes[place]:
                if not (output.takes(out.shape) and out.size):
                    return False
                self._out_shapes[place] = out.shape
                machine.outs[place, 2 : 2 + out.ndim] = out.shape
            machine.outs[place, 0] = addressof(_char_at(out))
        return True

    def _takes_inputs(self, inputs: Sequence[Any]) -> bool:
        """Write where inputs are, if they are just as the plan says; otherwise return False."""
        if len(inputs) != len(self._ins):
            return False
        fields = zip(inputs, self._scalars, self._ins, strict=True)
        for place, (value, scalar, (dtype, rank)) in enumerate(fields):
            if not (isinstance(value, _VALUES) and value.dtype == dtype and value.ndim == rank):
                return False
            if scalar is not None:
                scalar[0] = value
                continue
            if value.shape != self._in_shapes[place]:
                if not value.size:
                    return False
                self._in_shapes[place] = value.shape
                self._machine.sides[place, :rank] = value.shape
            flags = value.flags
            if flags.carray:
                self._samples[place, 0] = addressof(_char_at(value))
            elif flags.c_contiguous and flags.aligned:  # read-only
                self._samples[place, 0] = value.ctypes.data
            else:
                return False
        return True

    def _take_checked(self, inputs: Sequence[Any], outputs: Sequence[np.ndarray]) -> Sequence[Any]:
        """Write where arguments are, converted if that preserves their meaning.

        Returns:
            the inputs as the machine reads them; to be held while it does.
        """
        machine, columns = self._machine, check_arrays(self.plan, inputs, outputs)
        self._forget_shapes()
        for place, (column, scalar) in enumerate(zip(columns, self._scalars, strict=True)):
            if scalar is not None:
                scalar[0] = column[0]
                continue
            machine.sides[place, : column.ndim] = column.shape
            self._samples[place, 0] = column.ctypes.data
        for place, out in enumerate(outputs):
            machine.outs[place, 2 : 2 + out.ndim] = out.shape
            machine.outs[place, 0] = out.ctypes.data
        return columns

    def _go(self, rows: np.ndarray, samples: np.ndarray, records: np.ndarray | None = None) -> int:
        try:
            times = None if self.clock is None else self.clock.table
            return self._machine.run(rows, samples, records, times)
        except Exception as error:  # any exception of a user kernel
            raise MachineRaised(error) from error

    def _forget_shapes(self) -> None:
        """Rewrite the sides of inputs and outputs; most rows have the same ones."""
        self._in_shapes: list[Any] = [None] * len(self._ins)
        self._out_shapes: list[Any] = [None] * len(self._outs)

    def _end(self, status: int, row: Row, **details: int) -> None:
        """Raise the error of a row, if any."""
        failed = failure() if self._calls else None
        if failed is not None:
            raise call_error(row, failed, **details) from failed.__cause__
        if status:
            self._refuse(status, row, **details)

    def _refuse(self, status: int, row: Row, **details: int) -> None:
        got: tuple[int | float, int] = int(self._found[1]), int(self._found[2])
        if self.plan.checks[status - 1].kind == "number":
            got = float(self._found[1:2].view(np.float64)[0]), 0
        error = sample_error(
            self.plan, row, status, got, (int(self._found[3]), int(self._found[4]))
        )
        error.details.update(details)
        raise error

    def _check_chunk(self, rows: np.ndarray, outputs: Sequence[np.ndarray]) -> None:
        count = len(rows)
        if not _is_plain(rows, _KEYS, (count, 4)):
            raise _unexpected("rows", rows, _KEYS, (count, 4))
        if len(outputs) != len(self._outs):
            raise UsageError(f"expected {len(self._outs)} outputs, got {len(outputs)}")
        for (dtype, output), array in zip(self._outs, outputs, strict=True):
            sides = array.shape[1:]
            shape = (count, *(sides if output.takes(sides) else output.shape))
            if not _is_plain(array, dtype, shape):
                raise _unexpected(f"output {output.name!r}", array, dtype, shape)
            if not array.flags.writeable:
                raise UsageError(f"output {output.name!r}: expected a writable array")


def _is_plain(array: np.ndarray, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    return array.dtype == dtype and array.shape == shape and array.flags.c_contiguous


def _unexpected(
    name: str, array: np.ndarray, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> UsageError:
    return UsageError(
        f"{name}: expected a contiguous {dtype} array of shape {shape}, got {array.dtype} "
        f"{array.shape}"
    )
