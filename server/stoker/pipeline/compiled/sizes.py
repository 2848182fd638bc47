"""How large the padded outputs of rows are, computed without a pixel; for many rows in one call.

A small program is written and executed like that of the plan, of the steps that `sizing` found:
draws, size rules and conditions. Rows, draws and parameters are those of the engine, so are the
sizes. Belongs to one thread of a worker. Imports numba once it is made. The plain form is
`stoker.pipeline.plain.sizes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stoker.pipeline.compiled.calls import size_of
from stoker.pipeline.compiled.instructions import ELEMENTS
from stoker.pipeline.compiled.machine import Machine
from stoker.pipeline.compiled.program import Program, Writer, bits
from stoker.pipeline.engine.following import Follower
from stoker.pipeline.engine.interface import Freeze, check_freeze
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.sizing import Sizing, sizing_of
from stoker.pipeline.planning.steps import (
    ApplyStep,
    ConstStep,
    ContextStep,
    ConvertStep,
    Decision,
    DrawStep,
    ExprStep,
    FoldStep,
    IfStep,
    InputStep,
    RecordStep,
    RescaleStep,
    Step,
    made_for,
    source_of,
)
from stoker.pipeline.planning.tables import (
    aligned_arena,
    params_table,
    records_table,
    streams_table,
)
from stoker.protocol.layout import ALIGN
from stoker.rng.row import Row

_NUMBERS: Final = (ConstStep, ContextStep, ExprStep, RecordStep)
_FREE: Final = 2**62


class SizeFinder:
    """Computes the sizes of the padded outputs of rows; see `sizing.Sizes`."""

    def __init__(self, plan: Plan, freeze: Freeze | None = None) -> None:
        """Write the program, and compile what it calls or load it from the cache on disk.

        Args:
            plan: a plan with padded outputs.
            freeze: as for the engine.

        Raises:
            ResourceError: the kernel cache cannot be written.
        """
        sizing = sizing_of(plan)
        self._program = _Writer(plan, sizing).write()
        params = params_table(plan.decisions)
        self._follower = Follower(plan, params)
        self._outputs = len(sizing.outputs)
        self._machine = Machine(
            self._program,
            1 + len(sizing.read),
            1,
            streams_table(plan.decisions, check_freeze(plan, freeze)),
            params,
            records_table(plan.decisions),
            aligned_arena(0, ALIGN),
        )

    def find(
        self, place: Row, rows: np.ndarray, sizes: np.ndarray, numbers: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return the sizes of rows of one step; see `stoker.pipeline.planning.sizing.Sizes`."""
        machine = self._machine
        if self._follower.active and self._follower.follow(place):
            if self._program.step:
                machine.values[self._program.step, 0] = place.step
            if self._program.progress and place.progress is not None:
                machine.values[self._program.progress, 0] = bits(place.progress)
        found = np.zeros((len(rows), self._outputs, 2), np.int64)
        columns = [np.ascontiguousarray(column) for column in (sizes, *numbers)]
        samples = np.empty((len(columns), len(rows)), np.int64)
        for number, column in enumerate(columns):
            samples[number] = column.ctypes.data + column.strides[0] * np.arange(len(rows))
        machine.outs[0, :2] = found.ctypes.data, 16 * self._outputs
        machine.run(rows, samples)
        return found


class _Writer(Writer):
    """Writes the program: of values the sides alone count, of scalars their words."""

    def __init__(self, plan: Plan, sizing: Sizing) -> None:
        """Begin with an empty program."""
        super().__init__(plan)
        self.sizing = sizing

    def write(self) -> Program:
        """Return the program."""
        self.steps(self.plan.steps)
        for place, step in enumerate(self.sizing.outputs):
            for axis in (0, 1):
                self.add("extent", 0, self.root(step.src), axis, 2 * place + axis)
        return self.program()

    def step(self, step: Step) -> None:
        match step:
            case InputStep():
                self.take(step)
            case RescaleStep(decision=decision) if decision.index in self.sizing.decisions:
                left, right = (made_for(d) for d in (source_of(decision), decision))
                self.rescale(decision, self.root(left), self.root(right), 0)
            case DrawStep(decision=decision) if decision.index in self.sizing.decisions:
                self.draw(decision)
            case ApplyStep() | FoldStep() if self.wanted(step.dst):
                self.resize(step)
            case ConvertStep() if self.counts(step.dst):
                line, is_float = self.scalar(step.src)
                self.cast(line, is_float, self.state(step.dst).dtype, step.dst)
            case IfStep():
                self.branch(step)
            case _ if isinstance(step, _NUMBERS) and step.dst in self.sizing.numbers:
                self.number(step)

    def take(self, step: InputStep) -> None:
        if self.counts(step.dst):
            line = self.new_line(0, 1, 1)
            self.add("take", line, 1 + self.sizing.read.index(step.column), 0, 0)
            self.add("load", step.dst, line, ELEMENTS.index(self.state(step.dst).dtype))
        elif self.wanted(step.dst):
            self.add("given", step.dst, 0, self.sizing.measured.index(step.column))

    def resize(self, step: ApplyStep | FoldStep) -> None:
        """Compute the size of what an op makes."""
        free = (-_FREE, _FREE, -_FREE, _FREE)
        given = (0, step.dst, self.root(step.srcs[0]), 0, step.decision.index, *free, 2)
        self.add("size", *given, call=size_of(type(step.decision.op), step.decision.site))

    def draw(self, decision: Decision) -> None:
        of = None if decision.of is None else self.root(decision.of)
        super().draw(Decision(**{**decision.__dict__, "of": of}))

    def branch(self, step: IfStep) -> None:
        before = len(self.code)
        start = self.add("unless", self.truth(step.cond), 0)
        for word, block in (("then", step.then), ("orelse", step.orelse)):
            self.steps(block)
            for join in step.joins:
                source = getattr(join, word)
                if self.counts(join.dst):
                    self.add("move", join.dst, source)
                elif self.wanted(join.dst):
                    self.add("sides", join.dst, self.root(source))
            if word == "then":
                end = self.add("goto", 0)
                self.code[start][2] = len(self.code)
        self.code[end][1] = len(self.code)
        if len(self.code) == before + 2:  # neither block has anything that counts
            del self.code[before:]

    def expression(self, step: ExprStep) -> None:
        if step.op in ("height", "width", "count"):
            self.add("side", step.dst, self.root(step.args[0]), int(step.op == "width"))
        else:
            super().expression(step)

    def in_register(self, value: int) -> bool:
        return True

    def root(self, value: int) -> int:
        """Return the value whose sides a value has."""
        return self.sizing.roots.get(value, value)

    def wanted(self, value: int) -> bool:
        """Whether the sides of a value are computed: they count and are not fixed."""
        return value in self.sizing.sizes and not self.state(value).is_fixed

    def counts(self, value: int) -> bool:
        """Whether a scalar counts."""
        return value in self.sizing.numbers
