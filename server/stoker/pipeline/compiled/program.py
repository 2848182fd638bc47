"""A plan as a program: a table of instructions and a table of values, for the loop.

A step of the plan becomes one or two instructions. Nothing in them is compiled; a new pipeline of
known ops is just a new table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stoker.ops.contract.rules import visible_word
from stoker.ops.contract.states import State
from stoker.pipeline.compiled import adapters
from stoker.pipeline.compiled.emitter import Emitter, Program, bits
from stoker.pipeline.compiled.kernel_calls import (
    fold_of,
    forward_of,
    items_of,
    kernel_of,
    move_of,
    own,
    size_of,
    turn_of,
)
from stoker.pipeline.compiled.loop_instructions import CODES, ELEMENTS, KINDS
from stoker.pipeline.compiled.scalars import Scalars, element_of, is_float, item_bytes
from stoker.pipeline.engine.stage_clock import OTHER, WRITE
from stoker.pipeline.graph import array_arithmetic
from stoker.pipeline.graph.expressions import LOGIC
from stoker.pipeline.planning.decision import Decision, made_for, source_of
from stoker.pipeline.planning.engine_tables import fill_number, physical_rank
from stoker.pipeline.planning.op_declarations import MAX_RANK
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.steps import (
    ApplyStep,
    ArrayStep,
    ConvertStep,
    DrawStep,
    FoldStep,
    IfStep,
    InputStep,
    ItemsStep,
    KernelStep,
    ParameterStep,
    RescaleStep,
    SameSizeStep,
    Step,
    StoreSizedStep,
    StoreStep,
    VectorsStep,
)
from stoker.protocol.errors import BuildError


def write_program(plan: Plan) -> Program:
    """Write the program of a plan.

    Raises:
        BuildError: an op is applied to an array of more than MAX_RANK sides.
    """
    writer = PlanWriter(plan)
    writer.steps(plan.steps)
    return writer.emit.program()


class PlanWriter:
    """Writes the program of a plan, step by step."""

    def __init__(self, plan: Plan) -> None:
        """Lay out the value table: a line for each value of the plan, and one for no value."""
        self.emit = Emitter()
        self.plan = plan
        self.scalars = Scalars(
            self.emit, plan.states, lambda v: plan.places[v].kind == "register", lambda v: v
        )
        for value in range(max(plan.states, default=-1) + 1):
            self.emit.values.append(self.initial(value))
        self.none = self.emit.new_line(0, 0, 0)

    def initial(self, value: int) -> list[int]:
        """Return the words of a value before a row: the part that is constant."""
        state, place = self.plan.states.get(value), self.plan.places.get(value)
        if state is None or place is None:
            return [0, 1, 1]
        if len(state.shape) > MAX_RANK and place.kind != "input":
            raise BuildError(
                f"{self.plan.graph.site(value)}: {state} has {len(state.shape)} sides: expected at "
                f"most {MAX_RANK}; reshape it before it is packed"
            )
        address = 0
        if place.kind == "arena":
            self.emit.arena.append(value)
            address = place.index
        sides = list(state.bound[:MAX_RANK])
        return [address, *sides, *[1] * (2 - len(sides))]

    def steps(self, steps: Sequence[Step]) -> None:
        """Write steps."""
        for step in steps:
            self.step(step)

    def step(self, step: Step) -> None:
        """Write a step; its instructions belong to its stage."""
        outer, self.emit.stage = self.emit.stage, self.stage_of(step)
        self._step(step)
        self.emit.stage = outer

    def stage_of(self, step: Step) -> int:
        """Return the stage that the time of a step counts for."""
        match step:
            case DrawStep() | ApplyStep() | FoldStep() | ItemsStep() | VectorsStep():
                return self.emit.stage_of(op_title(step.decision))
            case ArrayStep():
                return self.emit.stage_of("arithmetic")
            case ConvertStep() | StoreStep() | StoreSizedStep():
                return WRITE
        return OTHER

    def _step(self, step: Step) -> None:
        match step:
            case InputStep():
                self.take(step)
            case DrawStep():
                self.decide(step)
            case SameSizeStep():
                self.emit.add("same_size", step.left, step.right, step.check)
            case ApplyStep() | FoldStep():
                self.apply(step)
            case ItemsStep() | VectorsStep():
                self.follow(step)
            case ConvertStep():
                self.convert(step)
            case StoreStep():
                self.store(step)
            case StoreSizedStep():
                self.store_sized(step)
            case IfStep():
                self.branch(step)
            case _:
                self.express(step)

    def bounds(self, state: State) -> list[int]:
        """Return minimum and maximum of each side."""
        pairs = zip(state.least, state.bound, strict=True)
        return [number for pair in pairs for number in pair]

    def take(self, step: InputStep) -> None:
        """Take a field."""
        state = self.plan.states[step.dst]
        if len(state.shape) > MAX_RANK:
            raise BuildError(
                f"field {self.plan.fields[step.column]!r} is {state}: expected at most {MAX_RANK} "
                "sides; pack it in another shape"
            )
        rank = len(state.shape)
        self.emit.add("take", step.dst, step.column, rank, step.check, *self.bounds(state))

    def decide(self, step: DrawStep) -> None:
        """Draw, or carry over a decision made for another size."""
        if isinstance(step, RescaleStep):
            left, right = (made_for(d) for d in (source_of(step.decision), step.decision))
            self.emit.rescale(step.decision, left, right, step.check)
        else:
            decision = step.decision
            of = self.none if decision.of is None else decision.of
            looked_at = None if decision.items is None else self.plan.states[decision.items]
            self.emit.draw(decision, of, looked_at)

    def set_parameter(self, step: ParameterStep) -> None:
        """Write a number of the row into the parameters of a decision."""
        for value in step.present:
            self.emit.add("fits", self.scalars.scalar(value)[0], step.absent, 1, 1)
        rule = step.parameter.rule
        line, floating = self.scalars.scalar(step.parameter.value)
        if rule.whole:
            self.emit.add("fits", line, step.check, int(rule.low), int(rule.high))
        else:
            if not floating:
                self.emit.add("to_float", number := self.emit.new_line(0), line)
                line = number
            self.emit.add("within", line, step.check, bits(rule.low), bits(rule.high))
        for name in rule.fields:
            dtype, offset = parameter_field(step.decision, name)
            self.emit.parameters[to := self.emit.new_line(0)] = step.decision.index, offset
            self.emit.add("write", to, line, ELEMENTS.index(dtype), int(not rule.whole))

    def branch(self, step: IfStep) -> None:
        """Write an `if` with its joins."""
        start = self.emit.add("unless", self.scalars.truth(step.cond), 0)
        self.steps(step.then)
        for join in step.joins:
            self.emit.add("join", join.dst, join.then)
        end = self.emit.add("goto", 0)
        self.emit.jump(start, "unless")
        self.steps(step.orelse)
        for join in step.joins:
            self.emit.add("join", join.dst, join.orelse)
        self.emit.jump(end, "goto")

    def apply(self, step: KernelStep) -> None:
        """Run a kernel, or a fold for each of its values."""
        decision, src, dst = (
            step.decision,
            self.plan.states[step.reads[0]],
            self.plan.states[step.dst],
        )
        op = type(decision.op)
        if step.check is not None:
            bounds = self.bounds(dst)[:4]
            sides = len(bounds) // 2
            self.emit.add(
                "size",
                *(0, step.dst, step.reads[0], step.check, decision.index),
                *(*bounds, *[0] * (4 - len(bounds)), sides),
                call=size_of(op, decision.site),
            )
        self.place(step.dst)
        scratch = self.plan.scratch.get(step.dst, 0), step.scratch_bytes
        if isinstance(step, FoldStep):
            for place, value in enumerate(step.reads):
                call = fold_of(op, step.kind, self.plan.states[value], dst, step.site)
                turn = (*scratch, place, len(step.reads))
                self.emit.kernel(call, value, step.dst, decision.index, *turn)
        else:
            call = kernel_of(op, step.kind, src, dst, step.site)
            self.emit.kernel(call, step.src, step.dst, decision.index, *scratch)

    def place(self, value: int) -> None:
        """Set the address of a value that is in an output's row."""
        place = self.plan.places[value]
        if place.kind == "output":
            self.emit.add("slot", value, place.index, len(self.plan.outputs[place.index].shape))

    def follow(self, step: ItemsStep | VectorsStep) -> None:
        """Move boxes or keypoints, or turn the components of a vector field."""
        if isinstance(step, ItemsStep):
            self.items(step)
        else:
            self.turn(step)

    def items(self, step: ItemsStep) -> None:
        """Move boxes or keypoints."""
        decision, op = step.decision, type(step.decision.op)
        src, dst = self.plan.states[step.src], self.plan.states[step.dst]
        self.place(step.dst)
        size = None if step.frame is None else size_of(op, step.site)
        frame = self.none if step.frame is None else step.frame
        given = (0, frame, decision.index, visible_word(src), step.dst, dst.bound[0])
        self.emit.add("frame", *given, call=size)
        if step.kernel is not None:
            call = items_of(op, step.kind, src, dst, step.site)
        else:
            ask = forward_of(op, step.site)
            self.emit.kernel(ask, self.none, self.none, decision.index)
            call = move_of(step.kind, src)
        self.emit.kernel(call, step.src, step.dst, decision.index)
        self.emit.add("count", step.dst, step.src, step.check)

    def turn(self, step: VectorsStep) -> None:
        """Turn the components of a vector field, by the map for the size of its frame."""
        decision, op = step.decision, type(step.decision.op)
        src, dst = self.plan.states[step.src], self.plan.states[step.dst]
        self.place(step.dst)
        if not dst.is_fixed:
            self.emit.add("sides", step.dst, step.src)
        given = (0, step.frame, decision.index, 0, self.none, 0)
        self.emit.add("frame", *given, call=size_of(op, step.site))
        self.emit.kernel(forward_of(op, step.site), self.none, self.none, decision.index)
        self.emit.kernel(turn_of(step.kind, src, dst), step.src, step.dst, decision.index)

    def convert(self, step: ConvertStep) -> None:
        """Copy with another dtype or rank."""
        src, dst = self.plan.states[step.src], self.plan.states[step.dst]
        if self.scalars.in_register(step.dst):
            line, kind = self.scalars.scalar(step.src)
            self.scalars.cast(line, kind, dst.dtype, step.dst)
        elif self.scalars.in_register(step.src):
            self.place(step.dst)
            self.emit.add("write", step.dst, step.src, element_of(dst), is_float(src))
        else:
            self.place(step.dst)
            if not dst.is_fixed:
                self.emit.add("sides", step.dst, step.src)
            if src.dtype == dst.dtype:
                self.emit.add("copy", step.dst, step.src, physical_rank(src), item_bytes(src))
            else:
                call = own(adapters.copy_into, "copy", src, dst)
                self.emit.kernel(call, step.src, step.dst, 0)

    def express(self, step: Step) -> None:
        """Compute an array or a scalar, or write one into parameters."""
        if isinstance(step, ArrayStep):
            self.each(step)
        elif isinstance(step, ParameterStep):
            self.set_parameter(step)
        else:
            self.scalars.number(step)

    def each(self, step: ArrayStep) -> None:
        """Compute an array from arrays and numbers, element by element."""
        states = [self.plan.states[arg] for arg in step.args]
        shaped = [arg for arg, state in zip(step.args, states, strict=True) if state.shape]
        if step.check is not None:
            self.emit.add("same_size", *shaped, step.check)
        operands: list[tuple[int, int, int]] = []
        for arg, state in zip(step.args, states, strict=True):
            if state.shape:
                operands.append((arg, element_of(state), item_bytes(state)))
                continue
            line, floating = self.scalars.scalar(arg)
            operands.append((line, ELEMENTS.index("float64" if floating else "int64"), 0))
        if step.fits is not None:
            line, _ = self.scalars.scalar(step.fits[0])
            self.emit.add("fits", line, step.fits[1], *array_arithmetic.limits(step.compute))
        dst = self.plan.states[step.dst]
        if not dst.is_fixed:
            self.emit.add("sides", step.dst, shaped[0])
        real = np.dtype(step.compute).kind == "f"
        name = step.op + "_f" * (real and step.op not in LOGIC)
        kind = KINDS.index(step.compute if real else "int64")
        (left, *of_left), (right, *of_right) = operands[0], operands[-1]
        into = element_of(dst), item_bytes(dst), len(dst.shape)
        given = (left, right, CODES[name], kind, *of_left, *of_right, *into)
        self.emit.add("each", step.dst, *given)

    def store(self, step: StoreStep) -> None:
        """Copy a value into an output's row."""
        state = self.plan.states[step.src]
        if self.scalars.in_register(step.src):
            output = self.plan.outputs[step.output]
            kind = ELEMENTS.index(output.dtype)
            self.emit.add("put", step.output, step.src, kind, is_float(state))
        else:
            self.emit.add("store", step.output, step.src, physical_rank(state), item_bytes(state))

    def store_sized(self, step: StoreSizedStep) -> None:
        """Copy a value of its own size, and its size after it, into the output."""
        src, output = self.plan.states[step.src], self.plan.outputs[step.output]
        for place, axis in enumerate(step.varies):
            self.emit.add("extent", step.output + 1, step.src, axis, place)
        if step.form.form != "pad":
            self.emit.add("store", step.output, step.src, physical_rank(src), item_bytes(src))
            return
        row = self.emit.new_line(0, 1, 1)
        self.emit.add("slot", row, step.output, len(output.shape))
        fill = fill_number(step.form.fill, output.dtype)
        template = adapters.pad_real if isinstance(fill, float) else adapters.pad_whole
        self.emit.add("note", 4, len(step.varies))
        self.emit.add("note", 6, bits(fill) if isinstance(fill, float) else fill)
        dst = State.fixed(src.kind, output.dtype, output.shape)
        self.emit.kernel(own(template, "pad", src, dst), step.src, row, 0)
        self.emit.add("room", step.src, row, step.check)


def op_title(decision: Decision) -> str:
    """Return the name of an op as tables of times have it, with the file and line of its call."""
    file, line = decision.site
    return f"{decision.op.name} ({os.path.basename(file)}:{line})" if file else decision.op.name


def parameter_field(decision: Decision, name: str) -> tuple[str, int]:
    """Return the dtype of a run-time parameter, and its offset in bytes."""
    fields: Mapping[str, Any] = decision.op.parameters.fields or {}
    dtype, offset = fields[name][:2]
    return dtype.name, offset
