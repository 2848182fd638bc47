"""The sizes of the padded outputs of rows, computed without pixels; for many rows in one call.

A small program is written and executed like that of the plan, from the steps that `sizing` found:
draws, size rules and conditions. Rows, draws and parameters are those of the engine, so the sizes
are too. Belongs to one thread of a worker. Imports numba when an instance is made. The plain form
is `stoker.pipeline.plain.plain_sizes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stoker.pipeline.compiled.emitter import Emitter, Program, bits
from stoker.pipeline.compiled.kernel_calls import size_of
from stoker.pipeline.compiled.loop_instructions import ELEMENTS
from stoker.pipeline.compiled.machine import Machine
from stoker.pipeline.compiled.scalars import Scalars
from stoker.pipeline.engine.following import Follower
from stoker.pipeline.engine.interface import Freeze, check_freeze
from stoker.pipeline.planning.decision import made_for, source_of
from stoker.pipeline.planning.engine_tables import (
    aligned_arena,
    params_table,
    records_table,
    streams_table,
)
from stoker.pipeline.planning.op_declarations import MAX_RANK
from stoker.pipeline.planning.padded_sizes import Sizing, sizing_of
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.steps import (
    ApplyStep,
    ConstStep,
    ContextStep,
    ConvertStep,
    DrawStep,
    ExprStep,
    FoldStep,
    IfStep,
    InputStep,
    KernelStep,
    RecordStep,
    RescaleStep,
    Step,
)
from stoker.protocol.slot_layout import ALIGN
from stoker.rng.row import Row

_FREE: Final = 2**62


class SizeFinder:
    """Computes the sizes of the padded outputs of rows; see `sizing.Sizes`."""

    def __init__(self, plan: Plan, freeze: Freeze | None = None) -> None:
        """Write the program, and compile its calls or load them from the disk cache.

        Args:
            plan: a plan with padded outputs.
            freeze: as for the engine.

        Raises:
            ResourceError: the kernel cache cannot be written.
        """
        sizing = sizing_of(plan)
        self._program = SizeWriter(plan, sizing).write()
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
        """Return the sizes of rows of one step; see `planning.padded_sizes.Sizes`."""
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


class SizeWriter:
    """Writes the program: it needs only the sides of values, and the words of scalars."""

    def __init__(self, plan: Plan, sizing: Sizing) -> None:
        """Start with a line for each value of the plan, and one for no value."""
        self.plan = plan
        self.sizing = sizing
        self.emit = Emitter()
        for value in range(max(plan.states, default=-1) + 1):
            state = plan.states.get(value)
            sides = [] if state is None else list(state.bound[:MAX_RANK])
            self.emit.new_line(0, *sides, *[1] * (2 - len(sides)))
        self.none = self.emit.new_line(0, 0, 0)
        self.scalars = Scalars(self.emit, plan.states, lambda value: True, self.root)

    def write(self) -> Program:
        """Return the program."""
        self.steps(self.plan.steps)
        for place, step in enumerate(self.sizing.outputs):
            for axis in (0, 1):
                self.emit.add("extent", 0, self.root(step.src), axis, 2 * place + axis)
        return self.emit.program()

    def steps(self, steps: Sequence[Step]) -> None:
        """Write the needed steps."""
        for step in steps:
            self.step(step)

    def step(self, step: Step) -> None:
        """Write a step, if it is needed."""
        match step:
            case InputStep():
                self.take(step)
            case DrawStep(decision=decision) if decision.index in self.sizing.decisions:
                self.decide(step)
            case ApplyStep() | FoldStep() if self.wanted(step.dst):
                self.resize(step)
            case ConvertStep() if self.counts(step.dst):
                line, floating = self.scalars.scalar(step.src)
                self.scalars.cast(line, floating, self.plan.states[step.dst].dtype, step.dst)
            case IfStep():
                self.branch(step)
            case ConstStep() | ContextStep() | ExprStep() | RecordStep() if self.counts(step.dst):
                self.scalars.number(step)

    def take(self, step: InputStep) -> None:
        """Take a number, or the size of a field."""
        if self.counts(step.dst):
            line = self.emit.new_line(0, 1, 1)
            self.emit.add("take", line, 1 + self.sizing.read.index(step.column), 0, 0)
            dtype = ELEMENTS.index(self.plan.states[step.dst].dtype)
            self.emit.add("load", step.dst, line, dtype)
        elif self.wanted(step.dst):
            self.emit.add("given", step.dst, 0, self.sizing.measured.index(step.column))

    def decide(self, step: DrawStep) -> None:
        """Draw for the size of a value, or carry over a decision made for another size."""
        decision = step.decision
        if isinstance(step, RescaleStep):
            left, right = (self.root(made_for(d)) for d in (source_of(decision), decision))
            self.emit.rescale(decision, left, right, 0)
        else:
            self.emit.draw(decision, self.none if decision.of is None else self.root(decision.of))

    def resize(self, step: KernelStep) -> None:
        """Compute the size of an op's result."""
        free = (-_FREE, _FREE, -_FREE, _FREE)
        given = (0, step.dst, self.root(step.reads[0]), 0, step.decision.index, *free, 2)
        self.emit.add("size", *given, call=size_of(type(step.decision.op), step.decision.site))

    def branch(self, step: IfStep) -> None:
        """Write an `if`, unless nothing in its blocks is needed."""
        code = self.emit.code
        before = len(code)
        start = self.emit.add("unless", self.scalars.truth(step.cond), 0)
        self.block(step, step.then, "then")
        end = self.emit.add("goto", 0)
        self.emit.jump(start, "unless")
        self.block(step, step.orelse, "orelse")
        self.emit.jump(end, "goto")
        if len(code) == before + 2:
            del code[before:]

    def block(self, step: IfStep, block: Sequence[Step], side: str) -> None:
        """Write a block, then its values for the joins."""
        self.steps(block)
        for join in step.joins:
            source = getattr(join, side)
            if self.counts(join.dst):
                self.emit.add("move", join.dst, source)
            elif self.wanted(join.dst):
                self.emit.add("sides", join.dst, self.root(source))

    def root(self, value: int) -> int:
        """Return the value that has the same sides."""
        return self.sizing.roots.get(value, value)

    def wanted(self, value: int) -> bool:
        """Return whether the sides of a value are computed: they are needed and not fixed."""
        return value in self.sizing.sizes and not self.plan.states[value].is_fixed

    def counts(self, value: int) -> bool:
        """Return whether a scalar is needed."""
        return value in self.sizing.numbers
