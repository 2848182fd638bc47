"""Sizes of padded outputs in plain Python: the interpreter over images without memory.

The oracle of `compiled.size_program`: it executes the plan's steps that sizes depend on, by the
interpreter's own rules, on arrays that have a shape but no pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stoker.pipeline.engine.interface import Freeze
from stoker.pipeline.plain.decisions import shape_only
from stoker.pipeline.plain.interpreter import Interpreter, PlainRun, size_of
from stoker.pipeline.planning.decision import made_for, source_of
from stoker.pipeline.planning.padded_sizes import Sizing, sizing_of
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.steps import (
    ConvertStep,
    DrawStep,
    IfStep,
    InputStep,
    KernelStep,
    RescaleStep,
    Step,
    VectorsStep,
)
from stoker.rng.row import Row, row_of


class PlainSizes:
    """Computes the sizes of the padded outputs of rows; see `sizing.Sizes`."""

    def __init__(self, plan: Plan, freeze: Freeze | None = None) -> None:
        self._engine = Interpreter(plan, freeze)
        self._sizing = sizing_of(plan)

    def find(
        self, place: Row, rows: np.ndarray, sizes: np.ndarray, numbers: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return the sizes of rows of one step; see `planning.padded_sizes.Sizes`."""
        found = np.zeros((len(rows), len(self._sizing.outputs), 2), np.int64)
        for number, words in enumerate(rows.tolist()):
            row = row_of(words, place.step, place.progress)
            run = _SizeRun(self._engine, row, self._columns(number, sizes, numbers), self._sizing)
            run.steps(self._engine.plan.steps)
            for place_of, step in enumerate(self._sizing.outputs):
                found[number, place_of] = size_of(run.env[step.src])
        return found

    def _columns(self, row: int, sizes: np.ndarray, numbers: Sequence[np.ndarray]) -> list[Any]:
        plan, sizing = self._engine.plan, self._sizing
        columns: list[Any] = []
        for column, state in enumerate(plan.inputs):
            made: Any = state.bound
            if column in sizing.measured:
                sides = sizes[row, sizing.measured.index(column)].tolist()
                pairs = zip(state.shape, (*sides, *state.bound[2:]), strict=False)
                made = tuple(found if side is None else side for side, found in pairs)
            columns.append(shape_only(made, state.dtype))
            if column in sizing.read:
                columns[-1] = numbers[sizing.read.index(column)][row : row + 1]
        return columns


class _SizeRun(PlainRun):
    """A row for which only sizes, and what they depend on, are computed."""

    def __init__(
        self, engine: Interpreter, row: Row, columns: Sequence[np.ndarray], sizing: Sizing
    ) -> None:
        super().__init__(engine, row, columns)
        self._sizing = sizing
        self.env = _Env(sizing.roots)
        for value in sizing.sizes:
            state = engine.plan.states[value]
            if state.is_fixed:
                self.env[value] = shape_only(state.bound, state.dtype)

    def step(self, step: Step) -> None:
        """Execute a step if it counts."""
        match step:
            case DrawStep(decision=decision):
                counts = decision.index in self._sizing.decisions
            case IfStep(cond=cond):
                counts = cond in self._sizing.numbers
            case _:
                made = getattr(step, "dst", None)
                counts = made in self._sizing.numbers or self._differs(made)
        if counts:
            super().step(step)

    def rescale(self, step: RescaleStep) -> None:
        """Carry a decision over; whether that is possible is checked when pixels are available."""
        values = made_for(source_of(step.decision)), made_for(step.decision)
        left, right = (size_of(self.env[value]) for value in values)
        self.engine.rescale(step.decision, self.row, (*left, *right))

    def take(self, step: InputStep) -> None:
        """Take a field; sizes are checked when its pixels are available."""
        self.env[step.dst] = self.columns[step.column]

    def compute(self, step: KernelStep, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array of that shape."""
        return shape_only(shape, self.plan.states[step.dst].dtype)

    def turn(self, step: VectorsStep) -> None:
        """Keep the size of what is turned."""
        self.env[step.dst] = self.env[step.src]

    def convert(self, step: ConvertStep) -> None:
        """Copy a number; any other value has the size of its source."""
        if step.dst in self._sizing.numbers:
            super().convert(step)

    def branch(self, step: IfStep) -> None:
        """Execute one of two blocks; join the values that count."""
        taken = bool(self.number(step.cond) != 0)
        self.steps(step.then if taken else step.orelse)
        for join in step.joins:
            if join.dst in self._sizing.numbers or self._differs(join.dst):
                self.env[join.dst] = self.env[join.then if taken else join.orelse]

    def _differs(self, value: int | None) -> bool:
        """Return whether a value's size counts and differs from row to row."""
        return value in self._sizing.sizes and not self.plan.states[value].is_fixed


class _Env(dict[int, Any]):
    """Values by number; a missing one has the size of its root."""

    def __init__(self, roots: Mapping[int, int]) -> None:
        super().__init__()
        self._roots = roots

    def __missing__(self, value: int) -> Any:
        root = self._roots.get(value, value)
        if root == value:
            raise KeyError(value)
        return self[root]
