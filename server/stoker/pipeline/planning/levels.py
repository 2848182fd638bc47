"""Ops of single levels become one table: kernels in a row, joined into one step of a plan.

A kernel that is `by_level` makes of each level another, wherever it stands. So a run of them,
applied to the picture of all levels, leaves the table of what they do together, and the image is
looked up once: exactly the bytes of the kernels one after the other, whatever was drawn. Draws,
records and their order stay. A run is joined within a block and where nobody else needs a value
between: neither its pixels nor, as a condition or another field's decision, its size.

The plans of workers are rewritten so; the interpreter runs the kernels as they are, and so does an
engine for which a table gains nothing (`stoker.pipeline.compiled.program`). numba-free.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from stoker.ops.contract.op import State
from stoker.pipeline.planning.arena import reads
from stoker.pipeline.planning.steps import (
    ApplyStep,
    DrawStep,
    ExprStep,
    IfStep,
    ItemsStep,
    LevelsStep,
    SameSizeStep,
    Step,
)

TABLE: Final = State.fixed("image", "uint8", (256, 1, 1))


class Bound(Protocol):
    """What is rewritten of a binder."""

    steps: tuple[Step, ...]
    states: dict[int, State]

    def new_value(self) -> int:
        """Return the number of a value that the graph does not have."""
        ...


def join_levels(bound: Bound) -> None:
    """Join the kernels of each run of two or more, in place."""
    bound.steps = _Joiner(bound).block(bound.steps)


def levels_steps(steps: Iterable[Step]) -> Iterator[LevelsStep]:
    """Yield the steps that join kernels, those in branches too."""
    return (step for step in _all(steps) if isinstance(step, LevelsStep))


class _Joiner:
    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.needed = Counter(value for step in _all(bound.steps) for value in _needs(step))

    def block(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Return the steps of a block, with each run at the place of its last kernel."""
        runs = self.runs(steps)
        before = {one.dst: run[0].src for run in runs.values() for one in run[:-1]}
        written: list[Step] = []
        for step in steps:
            match step:
                case IfStep():
                    then, orelse = self.block(step.then), self.block(step.orelse)
                    written.append(dataclasses.replace(step, then=then, orelse=orelse))
                case DrawStep(decision=decision) if decision.of in before:
                    size = before[decision.of]
                    written.append(DrawStep(dataclasses.replace(decision, of=size)))
                case ApplyStep(dst=dst) if dst in runs:
                    written.append(LevelsStep(runs[dst], self.table()))
                case ApplyStep(dst=dst) if dst in before:
                    pass
                case _:
                    written.append(step)
        return tuple(written)

    def runs(self, steps: Iterable[Step]) -> dict[int, tuple[ApplyStep, ...]]:
        """Return the runs of a block by what they make."""
        runs: dict[int, tuple[ApplyStep, ...]] = {}
        for step in steps:
            if isinstance(step, ApplyStep) and self.by_level(step):
                earlier = runs.pop(step.src, ()) if self.alone(step) else ()
                runs[step.dst] = (*earlier, step)
        return {made: run for made, run in runs.items() if len(run) > 1}

    def by_level(self, step: ApplyStep) -> bool:
        """Whether a kernel changes levels of an image of uint8, each by itself."""
        src, dst = self.bound.states[step.src], self.bound.states[step.dst]
        levels = (src.kind, src.dtype, len(src.shape)) == ("image", "uint8", 3)
        return step.kernel.by_level and step.kernel.in_place and levels and src == dst

    def alone(self, step: ApplyStep) -> bool:
        """Whether nobody else needs what a kernel reads; its own decision may see the size."""
        return self.needed[step.src] == 1 + (step.decision.of == step.src)

    def table(self) -> int:
        """Return a new value, of the picture of all levels."""
        value = self.bound.new_value()
        self.bound.states[value] = TABLE
        return value


def _all(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        if isinstance(step, IfStep):
            yield from _all((*step.then, *step.orelse))


def _needs(step: Step) -> tuple[int | None, ...]:
    """Return the values that a step needs, be it for their sizes alone."""
    match step:
        case DrawStep(decision=decision):
            return (decision.of, decision.items)
        case SameSizeStep():
            return (step.left, step.right)
        case ItemsStep():
            return (step.src, step.frame)
        case ExprStep():
            return step.args
        case _:
            return reads(step)
