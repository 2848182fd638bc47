"""The guarded engine: compiled kernels with margins around the memory of each call; for debugging.

The executor runs all kernels of a row in one arena, so a kernel that writes beyond its memory
damages some other value, or the heap, and the damage shows late or never. This engine walks the
plan as the interpreter does, runs the same machine code of every draw and kernel, and gives each
call its own memory: destination, scratch and record are between painted margins of `MARGIN` bytes.
After the call the margins, the source and the parameters must be unchanged. Each kernel runs twice,
on memory painted with different bytes: if the results differ, it read uninitialized memory
(undefined scratch, bytes beyond its source) or did not write all of its destination. A violation
raises a `BuildError` that names op, line, sample and place: the op is at fault, not the sample.

It computes exactly the bytes of the executor, several times slower; memory is allocated per
sample. Writes beyond the margins are not detected. Boxes, keypoints and Python functions are
computed by Python, whose arrays check every index. `stoker serve --debug-memory` makes workers use
this engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stoker.jit import compiled
from stoker.ops._testing.painted import PaintedMemory
from stoker.ops.contract.machine_records import machine_record
from stoker.pipeline.engine.sample_faults import kernel_error
from stoker.pipeline.graph.sites import Site
from stoker.pipeline.plain.interpreter import Interpreter, PlainRun, key_of
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.engine_tables import physical
from stoker.pipeline.planning.steps import (
    FoldStep,
    KernelStep,
)
from stoker.protocol.errors import BuildError
from stoker.rng.row import Row
from stoker.rng.streams import machine_key

PAINTS = (0xA5, 0x3C)


class Guarded(Interpreter):
    """Computes rows of a plan with guarded machine code; see `interface.Engine`."""

    def begin(self, row: Row, columns: Sequence[np.ndarray]) -> PlainRun:
        """Return a run whose kernels are compiled and guarded."""
        return _GuardedRun(self, row, columns)

    def draw(
        self,
        decision: Decision,
        row: Row,
        size: tuple[int, int],
        items: tuple[np.ndarray, ...] = (),
    ) -> None:
        """Fill the record of a decision for a row.

        Raises:
            BuildError: the draw wrote outside its record, left a field of it unwritten, or
                changed its parameters or the items it reads.
        """
        op, name = decision.op, f"d{decision.index}"
        if op.calls_python:
            super().draw(decision, row, size, items)
            return
        key = machine_key(key_of(decision, row, self._freeze))
        results = []
        for paint in (0, PAINTS[1]):
            memory = PaintedMemory.painted("record", op.record.itemsize, paint)
            record = memory.inner.view(machine_record(op.record))
            params = _alone(self._params, name)
            before = params.tobytes()
            looked_at = tuple(np.array(value) for value in items)
            try:
                compiled(op.draw)(key, params, *size, record[0], *looked_at)
            except Exception as error:
                super().draw(decision, row, size, items)  # names the line, if it raises as well
                why = f"raised {type(error).__name__}: {error}"
                raise _fault(decision, "draw", op.draw, decision.site, why, row) from error
            fault = memory.fault()
            if any(a.tobytes() != b.tobytes() for a, b in zip(items, looked_at, strict=True)):
                fault = "changed the items it reads"
            if params.tobytes() != before:
                fault = "changed its parameters"
            if fault:
                raise _fault(decision, "draw", op.draw, decision.site, fault, row)
            results.append(record)
        for field in op.record.names or ():
            if field != "none" and results[0][field].tobytes() != results[1][field].tobytes():
                fault = f"did not write all of its record: field {field!r} keeps its old content"
                raise _fault(decision, "draw", op.draw, decision.site, fault, row)
        self._records[name] = results[0][0]
        self.drawn.append(decision.index)

    def record(self, decision: Decision) -> tuple[Any, Any]:
        """Return copies of parameters and record of a decision, as kernels take them."""
        name = f"d{decision.index}"
        return _alone(self._params, name), _alone(self._records, name)


class _GuardedRun(PlainRun):
    """One row; kernels run between margins."""

    engine: Guarded

    def compute(self, step: KernelStep, shape: tuple[int, ...]) -> np.ndarray:
        if step.decision.op.calls_python:
            return super().compute(step, shape)
        dtype = np.dtype(physical(self.plan.states[step.dst].dtype))
        size = int(np.prod(shape)) * dtype.itemsize
        results = []
        for paint in PAINTS:
            dst = PaintedMemory.painted("destination", size, paint)
            scratch = PaintedMemory.painted("scratch", step.scratch_bytes, paint)
            into = dst.inner.view(dtype).reshape(shape)
            self.call(step, into, (dst, scratch))
            results.append(into)
        if results[0].tobytes() != results[1].tobytes():
            differs = int((results[0] != results[1]).sum())
            fault = (
                f"gave different results for different contents of its memory, in {differs} of "
                f"{results[0].size} elements: it reads uninitialized memory, or does "
                "not write all of its destination"
            )
            raise self.refuse(step, fault)
        results[0].flags.writeable = False
        return results[0]

    def call(
        self,
        step: KernelStep,
        dst: np.ndarray,
        memories: tuple[PaintedMemory, PaintedMemory],
    ) -> None:
        """Run a kernel, a fold once for each value, and check the memory around its arrays."""
        run, count = compiled(step.kernel.run), len(step.reads)
        for place, value in enumerate(step.reads):
            counts = (place, count) if isinstance(step, FoldStep) else ()
            self.call_on(step, self.env[value], (run, counts), dst, memories)

    def call_on(
        self,
        step: KernelStep,
        value: np.ndarray,
        how: tuple[Callable[..., None], tuple[int, ...]],
        dst: np.ndarray,
        memories: tuple[PaintedMemory, PaintedMemory],
    ) -> None:
        """Run a kernel on one source; `how` is the compiled kernel and a fold's counts."""
        given = np.ascontiguousarray(value)
        src = PaintedMemory.painted("source", given.nbytes, PAINTS[0])
        src.inner[:] = given.view(np.uint8).reshape(-1)
        view = src.inner.view(given.dtype).reshape(given.shape)
        params, record = self.engine.record(step.decision)
        before = params.tobytes(), record.tobytes()
        run, counts = how
        try:
            run(view, *counts, dst, params, record, memories[1].inner)
        except Exception as error:
            super().compute(step, dst.shape)  # names the line, if the plain form raises as well
            raise self.refuse(step, f"raised {type(error).__name__}: {error}") from error
        faults = [memory.fault() for memory in (src, *memories)]
        if src.inner.tobytes() != given.tobytes():
            faults.append("changed its source")
        if (params.tobytes(), record.tobytes()) != before:
            faults.append("changed its parameters or its record")
        for fault in filter(None, faults):
            raise self.refuse(step, fault)

    def refuse(self, step: KernelStep, fault: str) -> BuildError:
        """Return the error for a kernel."""
        what = f"{step.kind} kernel"
        return _fault(step.decision, what, step.kernel.run, step.site, fault, self.row)


def _alone(table: np.ndarray, name: str) -> Any:
    """Return a copy of a sub-record in the form that kernels take."""
    return np.array(table[name])[0]


def _fault(
    decision: Decision, what: str, fn: Callable[..., Any], site: Site, fault: str, row: Row
) -> BuildError:
    remedy = (
        "Correct the op: every index of a kernel must be inside the sides of its arrays, and "
        "`declare` must ask for all scratch that it uses"
    )
    return kernel_error(decision, what, fn, row, fault, remedy, site)
