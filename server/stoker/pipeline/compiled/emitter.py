"""Programs under construction: tables of instructions and of values, and the calls in them.

Three writers use an `Emitter`: `program` (a plan), `sizes` (the sizes of padded outputs) and
`windows` (the boxes to decode). Nothing is compiled here: a call is stored as a `Call`, and
`compiled.machine` inserts its address.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stoker.ops.contract.states import State
from stoker.pipeline.compiled.kernel_calls import Call, draw_of, rescale_of
from stoker.pipeline.compiled.loop_instructions import CODES, FORMS, LINE, WIDTH
from stoker.pipeline.engine.stage_clock import FIRST_OP, MAX_OPS, OTHER
from stoker.pipeline.planning.decision import Decision, source_of
from stoker.pipeline.planning.engine_tables import physical, physical_rank


@dataclass
class Program:
    """The program that a machine executes for a row.

    Attributes:
        code: (n, WIDTH) int64; addresses of functions are 0 until they are linked.
        values: (lines, LINE) int64: constants, sides, and the offsets of values in the arena.
        arena: lines whose address is their offset in the arena.
        pointers: line -> the line whose first word it points to.
        parameters: line -> decision and offset of the run-time parameter that it points to.
        calls: line of the program -> its call.
        step, progress: lines that hold the row's step (int64) and progress (float64).
        stages: the stage of each line of the program, see `stoker.pipeline.engine.stage_clock`.
        ops: names of the ops that have stages, from `FIRST_OP` on.
    """

    code: np.ndarray
    values: np.ndarray
    arena: list[int]
    pointers: dict[int, int]
    parameters: dict[int, tuple[int, int]]
    calls: dict[int, Call]
    step: list[int]
    progress: list[int]
    stages: list[int]
    ops: tuple[str, ...]


def bits(value: float) -> int:
    """Return the bits of a float64 as an int64."""
    return int(np.float64(value).view(np.int64))


@dataclass
class Emitter:
    """The tables of a program under construction; every writer of programs holds one."""

    values: list[list[int]] = field(default_factory=list)
    code: list[list[int]] = field(default_factory=list)
    arena: list[int] = field(default_factory=list)
    pointers: dict[int, int] = field(default_factory=dict)
    parameters: dict[int, tuple[int, int]] = field(default_factory=dict)
    calls: dict[int, Call] = field(default_factory=dict)
    step_lines: list[int] = field(default_factory=list)
    progress_lines: list[int] = field(default_factory=list)
    stages: dict[int, int] = field(default_factory=dict)
    ops: dict[str, int] = field(default_factory=dict)
    stage: int = OTHER

    def program(self) -> Program:
        """Return the program in its current state."""
        values = np.zeros((len(self.values), LINE), np.int64)
        for line, words in enumerate(self.values):
            values[line, : len(words)] = words
        return Program(
            np.array(self.code, np.int64).reshape(-1, WIDTH),
            values,
            self.arena,
            self.pointers,
            self.parameters,
            self.calls,
            self.step_lines,
            self.progress_lines,
            [self.stages.get(line, OTHER) for line in range(len(self.code))],
            tuple(self.ops),
        )

    def new_line(self, *words: int) -> int:
        """Append a line of values; return its number."""
        self.values.append(list(words))
        return len(self.values) - 1

    def add(self, name: str, *operands: int, call: Call | None = None) -> int:
        """Append an instruction; return its line."""
        if len(operands) > len(FORMS[name]):
            raise TypeError(f"{name} takes {FORMS[name]}")
        line = len(self.code)
        self.code.append([CODES[name], *operands, *[0] * (WIDTH - 1 - len(operands))])
        if self.stage != OTHER:
            self.stages[line] = self.stage
        if call is not None:
            self.calls[line] = call
        return line

    def stage_of(self, op: str) -> int:
        """Return the stage of an op; `OTHER` if there are too many."""
        if op not in self.ops and len(self.ops) == MAX_OPS:
            return OTHER
        return self.ops.setdefault(op, FIRST_OP + len(self.ops))

    def jump(self, line: int, name: str) -> None:
        """Make the jump at a line, an instruction of that name, go to the next line."""
        self.code[line][1 + FORMS[name].index("to")] = len(self.code)

    def rescale(self, decision: Decision, left: int, right: int, check: int) -> None:
        """Carry the record of a decision's source from the size of one line to that of another."""
        op = type(decision.op)
        call = None if op.rescale is None else rescale_of(op, decision.site)
        source = source_of(decision).index
        size = decision.op.record.itemsize
        self.add("rescale", 0, decision.index, source, left, right, check, size, call=call)

    def draw(self, decision: Decision, of: int, looked_at: State | None = None) -> None:
        """Draw for the size of a line; `looked_at` is the state of what the draw reads."""
        op = type(decision.op)
        if looked_at is None:
            self.add("draw", 0, decision.index, of, call=draw_of(op, decision.site))
        else:
            assert decision.items is not None
            call = draw_of(op, decision.site, looked_at)
            item = np.dtype(physical(looked_at.dtype)).itemsize
            self.add("draw_from", 0, decision.index, of, decision.items, item, call=call)

    def kernel(self, call: Call, src: int, dst: int, decision: int, *more: int) -> None:
        """Append the call of a kernel; `more` are the last operands of its instruction."""
        ranks = 8 * physical_rank(call.src) + physical_rank(call.dst)
        items = [np.dtype(physical(state.dtype)).itemsize for state in (call.src, call.dst)]
        name = "rule" if call.form == "note" else call.form
        self.add(name, 0, dst, src, ranks, decision, *items, *more, call=call)
