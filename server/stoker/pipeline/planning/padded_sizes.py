"""The part of a plan that must run to compute the sizes of padded outputs, without pixels.

A padded batch is as long as its longest row, on any rank, so the sizes of all rows of the global
batch must be known before the first one is decoded. Sizes follow from the dataset's side columns,
from draws, and from conditions on numbers; this module walks back from the padded outputs and finds
the steps that matter. If a size depends on pixels, or on the boxes that an op keeps, the plan is
refused. Runs wherever a plan is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from stoker.ops.contract.kernel_forms import same_size
from stoker.pipeline.graph.nodes import STATISTICS
from stoker.pipeline.planning.steps import (
    ApplyStep,
    ArrayStep,
    ConstStep,
    ContextStep,
    ConvertStep,
    DrawStep,
    ElementStep,
    ExprStep,
    FoldStep,
    IfStep,
    InputStep,
    ItemsStep,
    Join,
    KernelStep,
    Maker,
    Path,
    RecordStep,
    Step,
    StoreSizedStep,
    VectorsStep,
    walk,
)
from stoker.protocol.errors import BuildError

if TYPE_CHECKING:
    from stoker.pipeline.planning.plan import Plan
    from stoker.rng.row import Row

_Maker = Step | tuple[Step, Join]
_Need = tuple[str, int]


@dataclass
class Sizing:
    """The part that must run.

    Attributes:
        outputs: the outputs that are padded to the longest row of a batch.
        measured: columns of the fields whose sizes are needed.
        read: columns of the fields whose values are needed.
        roots: value -> a value that certainly has the same size, itself or an earlier one.
        sizes: values whose height and width, or length, is needed; roots of themselves.
        numbers: scalars that are needed.
        decisions: indices of the decisions that are made.
    """

    outputs: tuple[StoreSizedStep, ...]
    roots: dict[int, int] = field(default_factory=dict)
    sizes: set[int] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)
    decisions: set[int] = field(default_factory=set)
    measured: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)


class Sizes(Protocol):
    """Computes the sizes of the padded outputs of rows, without pixels."""

    def find(
        self, place: Row, rows: np.ndarray, sizes: np.ndarray, numbers: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return the sizes of rows of one step: (n, outputs, 2) int64; 1 for a missing side.

        Args:
            place: any row of the step; gives epoch, step and progress.
            rows: (n, 4) uint64, see `stoker.rng.row`.
            sizes: (n, measured, 2) int64: height and width, or length and 1.
            numbers: the values (n,) of each field that is read.
        """
        ...


def sizing_of(plan: Plan) -> Sizing:
    """Find what the sizes of padded outputs depend on.

    Raises:
        BuildError: they depend on pixels; names the output and the line.
    """
    padded = tuple(
        step
        for step in plan.steps
        if isinstance(step, StoreSizedStep) and step.form.form == "pad" and step.form.to != "bound"
    )
    sizing = Sizing(padded)
    if padded:
        walk = _Walk(plan, sizing)
        for step in padded:
            walk.back(step)
        for made in plan.steps:
            if isinstance(made, InputStep):
                if made.dst in sizing.numbers:
                    sizing.read.append(made.column)
                elif made.dst in sizing.sizes and not plan.states[made.dst].is_fixed:
                    sizing.measured.append(made.column)
    return sizing


class _Walk:
    def __init__(self, plan: Plan, sizing: Sizing) -> None:
        self.plan = plan
        self.sizing = sizing
        self.makers: dict[int, _Maker] = {}
        self.draws: dict[int, DrawStep] = {}
        self.conditions: dict[int, tuple[int, ...]] = {}
        self.draw_conditions: dict[int, tuple[int, ...]] = {}
        for step, path in walk(plan.steps):
            self.note(step, path)

    def note(self, step: Step, path: Path) -> None:
        """Record the step of each value, its conditions, and the value that has its size."""
        roots, conditions = self.sizing.roots, tuple(branch.cond for branch in path)
        if isinstance(step, DrawStep):
            self.draws[step.decision.index] = step
            self.draw_conditions[step.decision.index] = conditions
        for value in step.writes:
            self.conditions[value] = conditions
        for join in step.joins:
            self.makers[join.dst] = (step, join)
            sides = {roots.get(side, side) for side in (join.then, join.orelse)}
            roots[join.dst] = sides.pop() if len(sides) == 1 else join.dst
        if isinstance(step, Maker):
            self.makers[step.dst] = step
            if isinstance(step, VectorsStep | ArrayStep):
                like = next(arg for arg in step.reads if self.plan.states[arg].shape)
                roots[step.dst] = roots.get(like, like)
            elif isinstance(step, KernelStep | ConvertStep):
                src = self.source_of_size(step)
                roots[step.dst] = step.dst if src is None else roots.get(src, src)

    def source_of_size(self, step: KernelStep | ConvertStep) -> int | None:
        """Return the value that certainly has the size of a step's result, if any."""
        src = step.src if isinstance(step, ConvertStep) else step.reads[0]
        changes = (
            not isinstance(step, ConvertStep) and type(step.decision.op).out_size is not same_size
        )
        states = self.plan.states
        alike = states[src].shape[:2] == states[step.dst].shape[:2]
        return src if alike and not changes else None

    def back(self, step: StoreSizedStep) -> None:
        """Walk back from an output; needs are kept on a stack, since pipelines may be long."""
        stack: list[_Need] = [("size", step.src)]
        known = {
            "size": self.sizing.sizes,
            "number": self.sizing.numbers,
            "decision": self.sizing.decisions,
        }
        while stack:
            what, value = stack.pop()
            if what == "size":
                value = self.sizing.roots.get(value, value)
            if value in known[what]:
                continue
            known[what].add(value)
            stack += self.needs(step, what, value)

    def needs(self, step: StoreSizedStep, what: str, value: int) -> Iterator[_Need]:
        """Yield the needs of a need."""
        if what == "decision":
            decision = self.draws[value].decision
            if decision.items is not None:
                self.refuse(
                    step,
                    decision.items,
                    f"{decision.op.name}, which reads its {decision.op.draws_from}",
                )
            for one in decision.row_parameters:
                self.refuse(
                    step, one.value, f"{decision.op.name}, whose {one.name} each sample gives"
                )
            if decision.of is not None:
                yield "size", decision.of
            if decision.source is not None:
                yield "decision", decision.source.index
            conditions = self.draw_conditions[value]
        else:
            yield from (self.of_size if what == "size" else self.of_number)(step, value)
            conditions = self.conditions[value]
        yield from (("number", condition) for condition in conditions)

    def of_size(self, step: StoreSizedStep, value: int) -> Iterator[_Need]:
        if self.plan.states[value].is_fixed:
            return
        match self.makers[value]:
            case InputStep():
                pass
            case ApplyStep(decision=decision) | FoldStep(decision=decision) as step_of:
                yield "size", step_of.reads[0]
                yield "decision", decision.index
            case (IfStep(cond=cond), Join(then=then, orelse=orelse)):
                yield from (("number", cond), ("size", then), ("size", orelse))
            case ItemsStep(kind=kind):
                self.refuse(step, value, f"the number of remaining {kind}")
            case _:
                self.refuse(step, value, "a value whose size is not known in advance")

    def of_number(self, step: StoreSizedStep, value: int) -> Iterator[_Need]:
        match self.makers[value]:
            case InputStep() | ConstStep() | ContextStep():
                pass
            case RecordStep(decision=decision):
                yield "decision", decision.index
            case ConvertStep(src=src):
                yield "number", src
            case ExprStep(op="height" | "width" | "count", args=(of,)):
                yield "size", of
            case ExprStep(op=op) if op in STATISTICS:
                self.refuse(step, value, f"a condition that reads pixels ({op})")
            case ElementStep():
                self.refuse(step, value, "an element of an array")
            case ExprStep(args=args):
                yield from (("number", arg) for arg in args)
            case (IfStep(cond=cond), Join(then=then, orelse=orelse)):
                yield from (("number", cond), ("number", then), ("number", orelse))
            case _:
                self.refuse(step, value, "a number that an op computes")

    def refuse(self, step: StoreSizedStep, value: int, what: str) -> None:
        site = self.plan.graph.site(value)
        raise BuildError(
            f"{site}: output {step.form.output!r} is padded to the longest row of its batch, so "
            f"sizes must be known without pixels, but its size depends on {what}: deliver "
            "it by outputs.as_list or outputs.ragged, or fix its size",
            file=site.file,
            line=site.line,
            output=step.form.output,
        )
