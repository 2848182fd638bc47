"""A plan as a program: a table of instructions and a table of values, for the loop.

A step of the plan becomes one instruction or two. Nothing in them is compiled; a new pipeline of
known ops is a new table. What is called stands beside it as `Call`s, whose addresses
`stoker.pipeline.compiled.machine` puts in. numba-free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stoker.ops.contract.op import State
from stoker.ops.contract.rules import visible_word
from stoker.pipeline.compiled import adapters
from stoker.pipeline.compiled.calls import (
    Call,
    draw_of,
    fold_of,
    forward_of,
    items_of,
    kernel_of,
    move_of,
    own,
    reads_of,
    rescale_of,
    size_of,
)
from stoker.pipeline.compiled.instructions import CODES, ELEMENTS, FORMS, LINE, WIDTH
from stoker.pipeline.graph.expressions import LOGIC
from stoker.pipeline.graph.statistics import STATISTICS
from stoker.pipeline.planning.declared import MAX_RANK
from stoker.pipeline.planning.plan import Plan
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
    ItemsStep,
    RecordStep,
    RescaleStep,
    SameSizeStep,
    Step,
    StoreSizedStep,
    StoreStep,
    made_for,
    source_of,
)
from stoker.pipeline.planning.tables import fill_number, physical, physical_rank
from stoker.protocol.errors import BuildError

_STATISTICS: Final = {
    "mean": (adapters.mean_into, "float64"),
    "max": (adapters.max_into, "int64"),
    "min": (adapters.min_into, "int64"),
}
_STATISTICS_OF_FLOATS: Final = {
    "mean": (adapters.mean_of_floats_into, "float64"),
    "max": (adapters.max_of_floats_into, "float64"),
    "min": (adapters.min_of_floats_into, "float64"),
}


@dataclass
class Program:
    """What a machine executes for a row.

    Attributes:
        code: (n, WIDTH) int64; addresses of functions are 0 until they are linked.
        values: (lines, LINE) int64: constants, sides, and of what lies in the arena the offset.
        arena: lines whose address is their offset in the arena.
        pointers: line -> the line whose first word it points to.
        calls: line of the program -> what it calls.
        step, progress: lines that hold the row's step (int64) and progress (float64).
    """

    code: np.ndarray
    values: np.ndarray
    arena: list[int]
    pointers: dict[int, int]
    calls: dict[int, Call]
    step: list[int]
    progress: list[int]


def write_program(plan: Plan) -> Program:
    """Write the program of a plan.

    Raises:
        BuildError: an op is applied to an array of more than MAX_RANK sides.
    """
    writer = Writer(plan)
    for step in plan.steps:
        writer.step(step)
    return writer.program()


def write_boxes(
    found: Mapping[str, Sequence[Decision]], fields: Sequence[str], values: Mapping[int, str]
) -> Program:
    """Write a program that asks decisions which boxes of their pictures are read.

    Args:
        found: field -> the decisions that say which.
        fields: those whose sizes are known; the ones of `found` come first.
        values: value of the plan -> the field that it is.

    Returns:
        The program. Its first lines of values are `fields`, of which the sides are to be set; as
        many as `found` has follow, whose words after the first become top, left, bottom and right.
    """
    lines = [[0, 1, 1]] * len(fields) + [[0]] * len(found)
    writer = Tables(values=[list(words) for words in lines])
    for field_line, decisions in enumerate(found.values()):
        for number, decision in enumerate(decisions):
            op, box, source = type(decision.op), len(fields) + field_line, decision.source
            if source is None:
                writer.add("draw", 0, decision.index, field_line, call=draw_of(op))
            else:
                of = fields.index(values[made_for(source)])
                writer.add("draw", 0, source.index, of, call=draw_of(op))
                writer.rescale(decision, of, field_line, 0)
            begins = int(not number)
            writer.add("box", 0, box, field_line, decision.index, begins, call=reads_of(op))
    return writer.program()


def bits(value: float) -> int:
    """Return the bits of a float64 as an int64."""
    return int(np.float64(value).view(np.int64))


@dataclass
class Tables:
    """The tables under construction, and what both programs write."""

    values: list[list[int]] = field(default_factory=list)
    code: list[list[int]] = field(default_factory=list)
    arena: list[int] = field(default_factory=list)
    pointers: dict[int, int] = field(default_factory=dict)
    calls: dict[int, Call] = field(default_factory=dict)
    step_lines: list[int] = field(default_factory=list)
    progress_lines: list[int] = field(default_factory=list)

    def program(self) -> Program:
        """Return the program as it stands."""
        values = np.zeros((len(self.values), LINE), np.int64)
        for line, words in enumerate(self.values):
            values[line, : len(words)] = words
        return Program(
            np.array(self.code, np.int64).reshape(-1, WIDTH),
            values,
            self.arena,
            self.pointers,
            self.calls,
            self.step_lines,
            self.progress_lines,
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
        if call is not None:
            self.calls[line] = call
        return line

    def rescale(self, decision: Decision, left: int, right: int, check: int) -> None:
        """Carry the record of a decision's source from the size of one line to that of another."""
        call = rescale_of(type(decision.op), decision.site)
        source = source_of(decision).index
        size = decision.op.record.itemsize
        self.add("rescale", 0, decision.index, source, left, right, check, size, call=call)


class Writer(Tables):
    """Writes the program of a plan, step by step."""

    def __init__(self, plan: Plan) -> None:
        """Lay out the value table: a line for each value of the plan, and one for none."""
        super().__init__()
        self.plan = plan
        for value in range(max(plan.states, default=-1) + 1):
            self.values.append(self.initial(value))
        self.none = self.new_line(0, 0, 0)

    def initial(self, value: int) -> list[int]:
        """Return the words of a value before a row: what is known of it."""
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
            self.arena.append(value)
            address = place.index
        sides = list(state.bound[:MAX_RANK])
        return [address, *sides, *[1] * (2 - len(sides))]

    def steps(self, steps: Sequence[Step]) -> None:
        """Write steps."""
        for step in steps:
            self.step(step)

    def step(self, step: Step) -> None:
        """Write a step."""
        match step:
            case InputStep():
                self.take(step)
            case DrawStep():
                self.decide(step)
            case SameSizeStep():
                self.add("same_size", step.left, step.right, step.check)
            case ApplyStep() | FoldStep():
                self.apply(step)
            case ItemsStep():
                self.items(step)
            case ConvertStep():
                self.convert(step)
            case StoreStep():
                self.store(step)
            case StoreSizedStep():
                self.store_sized(step)
            case IfStep():
                self.branch(step)
            case _:
                self.number(step)

    def number(self, step: Step) -> None:
        """Write a step that makes a scalar."""
        match step:
            case ConstStep():
                word = bits(step.value) if isinstance(step.value, float) else int(step.value)
                self.values[step.dst][0] = word
            case ContextStep():
                self.context(step)
            case RecordStep():
                self.field(step)
            case ExprStep():
                self.expression(step)

    def state(self, value: int) -> State:
        """Return the state of a value."""
        return self.plan.states[value]

    def in_register(self, value: int) -> bool:
        """Whether a scalar is a word of the value table, and not in memory."""
        return self.plan.places[value].kind == "register"

    def bounds(self, state: State) -> list[int]:
        """Return least and greatest of each side."""
        pairs = zip(state.least, state.bound, strict=True)
        return [number for pair in pairs for number in pair]

    def take(self, step: InputStep) -> None:
        """Take a field."""
        state = self.state(step.dst)
        if len(state.shape) > MAX_RANK:
            raise BuildError(
                f"field {self.plan.fields[step.column]!r} is {state}: expected at most {MAX_RANK} "
                "sides; pack it in another shape"
            )
        rank = len(state.shape)
        self.add("take", step.dst, step.column, rank, step.check, *self.bounds(state))

    def decide(self, step: DrawStep) -> None:
        """Draw, or carry over what was drawn for another size."""
        if isinstance(step, RescaleStep):
            left, right = (made_for(d) for d in (source_of(step.decision), step.decision))
            self.rescale(step.decision, left, right, step.check)
        else:
            self.draw(step.decision)

    def draw(self, decision: Decision) -> None:
        """Draw for a value, whose height and width the draw sees."""
        op, looked_at = type(decision.op), decision.items
        of = self.none if decision.of is None else decision.of
        if looked_at is None:
            self.add("draw", 0, decision.index, of, call=draw_of(op, decision.site))
        else:
            call = draw_of(op, decision.site, self.state(looked_at))
            self.add("draw_from", 0, decision.index, of, looked_at, call=call)

    def branch(self, step: IfStep) -> None:
        """Write an `if` with its joins."""
        start = self.add("unless", self.truth(step.cond), 0)
        self.steps(step.then)
        for join in step.joins:
            self.add("join", join.dst, join.then)
        end = self.add("goto", 0)
        self.code[start][2] = len(self.code)
        self.steps(step.orelse)
        for join in step.joins:
            self.add("join", join.dst, join.orelse)
        self.code[end][1] = len(self.code)

    def apply(self, step: ApplyStep | FoldStep) -> None:
        """Run a kernel, or a fold for each of its values."""
        decision, src, dst = step.decision, self.state(step.srcs[0]), self.state(step.dst)
        op = type(decision.op)
        if step.check is not None:
            bounds = self.bounds(dst)[:4]
            sides = len(bounds) // 2
            self.add(
                "size",
                *(0, step.dst, step.srcs[0], step.check, decision.index),
                *(*bounds, *[0] * (4 - len(bounds)), sides),
                call=size_of(op, decision.site),
            )
        self.place(step.dst)
        scratch = self.plan.scratch.get(step.dst, 0), step.scratch_bytes
        if isinstance(step, FoldStep):
            for place, value in enumerate(step.srcs):
                call = fold_of(op, step.kind, self.state(value), dst, step.site)
                turn = (*scratch, place, len(step.srcs))
                self.kernel(call, value, step.dst, decision.index, *turn)
        else:
            call = kernel_of(op, step.kind, src, dst, step.site)
            self.kernel(call, step.src, step.dst, decision.index, *scratch)

    def kernel(self, call: Call, src: int, dst: int, decision: int, *more: int) -> None:
        """Append the call of a kernel; `more` are the last operands of its instruction."""
        ranks = 8 * physical_rank(call.src) + physical_rank(call.dst)
        items = [np.dtype(physical(state.dtype)).itemsize for state in (call.src, call.dst)]
        name = "rule" if call.form == "note" else call.form
        self.add(name, 0, dst, src, ranks, decision, *items, *more, call=call)

    def place(self, value: int) -> None:
        """Give a value that lies in an output's row its address."""
        place = self.plan.places[value]
        if place.kind == "output":
            self.add("slot", value, place.index, len(self.plan.outputs[place.index].shape))

    def items(self, step: ItemsStep) -> None:
        """Move boxes or keypoints."""
        decision, op = step.decision, type(step.decision.op)
        src, dst = self.state(step.src), self.state(step.dst)
        self.place(step.dst)
        size = None if step.frame is None else size_of(op, step.site)
        frame = self.none if step.frame is None else step.frame
        given = (0, frame, decision.index, visible_word(src), step.dst, dst.bound[0])
        self.add("frame", *given, call=size)
        if step.kernel is not None:
            call = items_of(op, step.kind, src, dst, step.site)
        else:
            ask = forward_of(op, step.site)
            self.kernel(ask, self.none, self.none, decision.index)
            call = move_of(step.kind, src)
        self.kernel(call, step.src, step.dst, decision.index)
        self.add("count", step.dst, step.src, step.check)

    def convert(self, step: ConvertStep) -> None:
        """Copy with another dtype or rank."""
        src, dst = self.state(step.src), self.state(step.dst)
        if self.in_register(step.dst):
            line, kind = self.scalar(step.src)
            self.cast(line, kind, dst.dtype, step.dst)
        elif self.in_register(step.src):
            self.place(step.dst)
            self.add("write", step.dst, step.src, _element(dst), _is_float(src))
        else:
            self.place(step.dst)
            if not dst.is_fixed:
                self.add("sides", step.dst, step.src)
            if src.dtype == dst.dtype:
                self.add("copy", step.dst, step.src, physical_rank(src), _item(src))
            else:
                call = own(adapters.copy_into, "copy", src, dst)
                self.kernel(call, step.src, step.dst, 0)

    def store(self, step: StoreStep) -> None:
        """Copy a value into an output's row."""
        state = self.state(step.src)
        if self.in_register(step.src):
            output = self.plan.outputs[step.output]
            kind = ELEMENTS.index(output.dtype)
            self.add("put", step.output, step.src, kind, _is_float(state))
        else:
            self.add("store", step.output, step.src, physical_rank(state), _item(state))

    def store_sized(self, step: StoreSizedStep) -> None:
        """Copy a value of a size of its own, and its size into the output behind."""
        src, output = self.state(step.src), self.plan.outputs[step.output]
        for place, axis in enumerate(step.varies):
            self.add("extent", step.output + 1, step.src, axis, place)
        if step.form.form != "pad":
            self.add("store", step.output, step.src, physical_rank(src), _item(src))
            return
        row = self.new_line(0, 1, 1)
        self.add("slot", row, step.output, len(output.shape))
        fill = fill_number(step.form.fill, output.dtype)
        template = adapters.pad_real if isinstance(fill, float) else adapters.pad_whole
        self.add("note", 4, len(step.varies))
        self.add("note", 6, bits(fill) if isinstance(fill, float) else fill)
        dst = State.fixed(src.kind, output.dtype, output.shape)
        self.kernel(own(template, "pad", src, dst), step.src, row, 0)
        self.add("room", step.src, row, step.check)

    def context(self, step: ContextStep) -> None:
        """Set a fact of the row."""
        if step.name == "step":
            self.step_lines.append(step.dst)
        elif step.name == "progress":
            self.progress_lines.append(step.dst)
        else:
            self.add(step.name, step.dst)

    def field(self, step: RecordStep) -> None:
        """Read a field of a record."""
        fields: Mapping[str, Any] = step.decision.op.record.fields or {}
        dtype, offset = fields[step.name][:2]
        line = self.new_line(0)
        self.add("field", line, step.decision.index, offset, ELEMENTS.index(dtype.name))
        self.cast(line, dtype.kind == "f", step.type_, step.dst)

    def scalar(self, value: int) -> tuple[int, bool]:
        """Return the line that holds a scalar as a word, and whether it is a float64."""
        state = self.state(value)
        if self.in_register(value):
            return value, bool(_is_float(state))
        line = self.new_line(0)
        self.add("load", line, value, _element(state))
        return line, bool(_is_float(state))

    def truth(self, value: int) -> int:
        """Return the line of a scalar that is 0 where it is false."""
        line, is_float = self.scalar(value)
        if is_float:
            self.add("truth_f", test := self.new_line(0), line)
            return test
        return line

    def cast(self, line: int, is_float: bool, dtype: str, dst: int) -> None:
        """Turn a word into a bool, int64 or float64."""
        if dtype == "bool":
            self.add("truth_f" if is_float else "truth", dst, line)
        elif dtype == "float64" and not is_float:
            self.add("to_float", dst, line)
        elif is_float == (dtype == "float64"):
            self.add("move", dst, line)
        else:
            raise TypeError("a float is never cut to an integer")

    def expression(self, step: ExprStep) -> None:
        """Compute a scalar of values."""
        op, args = step.op, step.args
        if op in ("height", "width", "count"):
            self.add("side", step.dst, args[0], int(op == "width"))
        elif op in STATISTICS:
            self.statistic(step)
        elif op in LOGIC:
            truths = []
            for arg in args:
                line, is_float = self.scalar(arg)
                self.cast(line, is_float, "bool", test := self.new_line(0))
                truths.append(test)
            self.add(op, step.dst, *truths)
        else:
            self.arithmetic(step)

    def arithmetic(self, step: ExprStep) -> None:
        """Compute a scalar of scalars."""
        real = "float64" in step.types or step.op == "div"
        lines = []
        for arg in step.args:
            line, is_float = self.scalar(arg)
            if real and not is_float:
                self.add("to_float", wide := self.new_line(0), line)
                line = wide
            lines.append(line)
        self.add(step.op + "_f" * real, step.dst, *lines)

    def statistic(self, step: ExprStep) -> None:
        """Compute a statistic of an array."""
        src = self.state(step.args[0])
        function, dtype = (_STATISTICS_OF_FLOATS if _is_float(src) else _STATISTICS)[step.op]
        line = self.new_line(0, 1, 1)
        self.pointers[line] = step.dst
        dst = State.fixed("array", dtype, (1,))
        call = own(function, step.op, src, dst)
        self.kernel(call, step.args[0], line, 0)


def _item(state: State) -> int:
    return np.dtype(physical(state.dtype)).itemsize


def _element(state: State) -> int:
    return ELEMENTS.index(physical(state.dtype))


def _is_float(state: State) -> int:
    return int(state.dtype in ("float32", "float64"))
