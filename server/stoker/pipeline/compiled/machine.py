"""A program with its memory and the addresses of its functions: what an engine executes.

Each function that the program calls is compiled for the types given by the plan's states, or loaded
from the disk cache, and stays for the life of the process; so does the loop. Belongs to one
thread. numba is imported when a machine is made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from stoker.jit import activity, compiled
from stoker.jit.compiling import is_missing
from stoker.pipeline.compiled.emitter import Program
from stoker.pipeline.compiled.kernel_calls import Call
from stoker.pipeline.compiled.loop_instructions import DECISIONS_AT, NOTE
from stoker.pipeline.compiled.timed_program import with_timed_copy
from stoker.pipeline.engine.shown_program import ShownProgram, Sign
from stoker.pipeline.engine.stage_clock import SHOWN, SPLIT
from stoker.pipeline.planning.op_declarations import MAX_RANK
from stoker.protocol.errors import StokerError

LOOP: Final = "loop"
"""Name of the loop that executes programs, for `activity`."""
_compiling = threading.Lock()
_addressed: dict[Callable[..., Any], None] = {}


class Machine:
    """Executes a program for rows.

    Attributes:
        values: the value table, (lines, LINE) int64.
        sides: (fields, MAX_RANK) int64, the sides of the samples; set them before a run.
        ahead: (fields,) int64, bytes of each sample to prefetch into the cache before its row is
            computed; initially 0.
        outs: (outputs, 2 + MAX_RANK) int64: address, bytes from row to row, sides of a row; set
            them before a run.
        found: number and sizes of a row that did not fit; then, for each decision, 1 plus the last
            row that made it.
    """

    def __init__(
        self,
        program: Program,
        fields: int,
        outputs: int,
        streams: np.ndarray,
        params: np.ndarray,
        records: np.ndarray,
        arena: np.ndarray,
        sign: Sign | None = None,
    ) -> None:
        """Compile or load the functions that are called.

        Args:
            program: what `write_program` returned.
            fields: number of columns it reads.
            outputs: number of outputs it writes.
            streams: keys of the decisions, see `stoker.pipeline.planning.engine_tables`.
            params: their parameters; changes of its contents take effect at the next run.
            records: memory for their records.
            arena: scratch memory, of `aligned_arena`.
            sign: shows another process where the program is; None: nothing does.

        Raises:
            BuildError: a function cannot be compiled; names the op, its file and line.
            ResourceError: the kernel cache cannot be written.
        """
        code = program.code.copy()
        with _compiling:
            tasks = functions_of(program)
            activity.expect(tasks)
            (loop,) = tasks[LOOP]().overloads.values()
            activity.finished(LOOP)
            for line, call in program.calls.items():
                code[line, 1] = address_of(call)
                activity.finished(_form(call))
        timed, stages = with_timed_copy(code, program.stages)
        self._sign, self._shown = sign, ShownProgram(bytes(stages), program.ops)
        self._unseen = np.zeros(2, np.int64)
        self._untimed = np.full(SHOWN + 1, -1, np.int64)
        self._untimed[SHOWN] = self._unseen.ctypes.data if sign is None else sign.address
        self._lines = self._untimed[SPLIT] = len(code)
        self._memory = streams, params, records, arena
        self.values = program.values.copy()
        self.values[program.arena, 0] += arena.ctypes.data
        for line, to in program.pointers.items():
            self.values[line, 0] = self.values[to : to + 1].ctypes.data
        self.sides = np.zeros((fields, MAX_RANK), np.int64)
        self.ahead = np.zeros(fields, np.int64)
        self.outs = np.zeros((outputs, 2 + MAX_RANK), np.int64)
        self.found = np.zeros(DECISIONS_AT + len(streams), np.int64)
        self._places = _addresses(len(streams), params, records)
        self._own_records = self._places[:, 1].copy()
        self._records = records
        for line, (decision, offset) in program.parameters.items():
            self.values[line, 0] = self._places[decision, 0] + offset
        self._moved = False
        # Not by the dispatcher, which would look at the types of these arrays for every row.
        self._execute = partial(
            loop.entry_point,
            timed,
            self.values,
            self.sides,
            self.ahead,
            self.outs,
            streams,
            self._places,
            arena.ctypes.data,
            np.zeros(NOTE, np.int64),
            self.found,
        )

    def run(
        self,
        rows: np.ndarray,
        samples: np.ndarray,
        records: np.ndarray | None = None,
        times: np.ndarray | None = None,
    ) -> int:
        """Compute rows; return 0, or the status of the first one that does not fit.

        Args:
            rows: (n, 4) uint64, see `stoker.rng.row`.
            samples: (fields, n) int64, the address of each row's sample.
            records: (n,) with the dtype of the machine's own: memory for those of each row; None:
                each row overwrites the machine's own.
            times: the table of a `StageClock`, which says which row is timed; None: none is.
        """
        if self._moved:
            self._places[:, 1], self._places[:, 2] = self._own_records, 0
        self._moved = records is not None
        if records is not None:
            self._places[:, 1] += records.ctypes.data - self._records.ctypes.data
            self._places[:, 2] = records.strides[0]
        if times is None:
            times = self._untimed
        else:
            times[SPLIT], times[SHOWN] = self._lines, self._untimed[SHOWN]
        if self._sign is not None:
            self._sign.show(self._shown)
        status: int = self._execute(rows, samples, times)
        return status


def functions_of(program: Program) -> dict[Hashable, Callable[[], Any]]:
    """Return the functions of a program: names for `activity`, and what compiles or loads each."""
    from stoker.pipeline.compiled.loop import compile_loop  # noqa: PLC0415 - loads numba

    calls = program.calls.values()
    return {LOOP: compile_loop, **{_form(call): partial(address_of, call) for call in calls}}


def missing_functions(program: Program) -> int:
    """Return how many functions of a program the cache on disk lacks and can keep."""
    from stoker.pipeline.compiled.loop import execute  # noqa: PLC0415 - loads numba

    functions = {execute, *(call.function for call in program.calls.values())}
    return sum(map(is_missing, functions))


def address_of(call: Call) -> int:
    """Return the address of a call's machine code.

    Raises:
            BuildError: it cannot be compiled, or returns a value, which is not allowed; names the
                op, and the user's file and line.
    """
    from stoker.pipeline.compiled import diagnose  # noqa: PLC0415 - loads numba
    from stoker.pipeline.compiled.signature import call_types  # noqa: PLC0415

    try:
        fast, given = compiled(call.function), call_types(call)
        if given not in fast.overloads:
            fast.compile(given)
    except StokerError:
        raise
    except Exception as error:  # numba lets KeyError and other exceptions of its own through
        raise diagnose.refused(call, diagnose.reason(error)) from None
    _addressed[call.function] = None
    made = fast.overloads[given]
    if not diagnose.gives_nothing(made.signature):
        gives = made.signature.return_type
        raise diagnose.refused(call, f"it returns {gives}, expected nothing: write it to dst")
    address: int = made.library.get_pointer_to_function(made.fndesc.mangled_name)
    return address


def _form(call: Call) -> tuple[Any, ...]:
    """Return what is equal for calls that share their machine code."""
    states = [part for s in (call.src, call.dst) for part in (s.dtype, len(s.shape))]
    return call.function, call.form, call.parameters, call.record, *states


def addressed() -> list[Callable[..., Any]]:
    """Return the functions whose machine code this process calls, in order of first use."""
    return list(_addressed)


def _addresses(count: int, params: np.ndarray, records: np.ndarray) -> np.ndarray:
    """Return (decisions, 3) int64: addresses of parameters and record of each, and 0."""
    found = np.zeros((count, 3), np.int64)
    for place, table in enumerate((params, records)):
        for index in range(count):
            fields: Mapping[str, Any] = table.dtype.fields or {}
            name = f"d{index}"
            found[index, place] = table.ctypes.data + (fields[name][1] if name in fields else 0)
    return found
