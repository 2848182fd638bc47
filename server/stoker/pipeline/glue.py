"""The glue: a plan written down as a short, readable Python function.

For each step one line or two: take a field, draw, make a view, call a kernel, branch. The function
loops over rows, so one build serves a single decoded sample and a whole chunk of raw arrays.
Nothing in the text depends on a parameter, a size, a stream name or a line of the user's: all
numbers stand in tables (`stoker.pipeline.tables`), so pipelines that differ only in numbers have
the same text. Kernels are named through the registry and imported when the file is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from stoker.ops.contract import State, same_size
from stoker.ops.points import MOVERS, visible_word
from stoker.ops.registry import name_of
from stoker.pipeline import expressions
from stoker.pipeline.plan import Plan
from stoker.pipeline.statistics import STATISTICS
from stoker.pipeline.steps import (
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
    SameSizeStep,
    Step,
    StoreSizedStep,
    StoreStep,
)
from stoker.pipeline.support import pixels, plane, store_packed, store_padded
from stoker.pipeline.tables import fill_number, physical

ROW_WORDS: Final = {
    "id": "rows[r, 1]",
    "epoch": "rows[r, 2]",
    "view": "rows[r, 3] & np.uint64(65535)",
}
"""Where a row's facts stand in the table of rows."""
FAULT_WORDS = 5
"""Words of `found` about a row that does not fit: its number and two sizes."""
HEADER = '''"""Glue of a Stoker pipeline: {ops}.

Generated; may be deleted at any time. One row a turn: rows (n, 4) holds seed, id, epoch, lane;
index the place of each row in the columns in0, in1, ...; n and f are integers and floats of the
plan; params and records have one sub-record for each decision; arena is scratch memory. Returns 0,
or the status of the first row that does not fit, with its number and sizes in the first words of
found; behind them, for each decision, 1 more than the last row that made it.

{columns}
"""

import numpy as np

from stoker.ops.registry import lookup
from stoker.pipeline.statistics import max_of, mean_of, min_of
from stoker.pipeline.support import copy, floordiv, key_of, mod, mutable, part, pixels, plane
from stoker.rng.jit import kernel

'''


SHAPED: Final = {2: plane, 3: pixels}
"""Sides -> the kernel that gives bytes a shape; calls compile in half the time of their text."""


@dataclass
class Glue:
    """Source and the numbers that go with it.

    Attributes:
        text: the whole file.
        numbers: the integers `n`.
        floats: the floats `f`.
        step: where in `numbers` the row's step stands, if the text reads it.
        progress: where in `floats` the row's progress stands, if the text reads it.
        kernels: functions of ops that the file calls.
    """

    text: str
    numbers: np.ndarray
    floats: np.ndarray
    kernels: tuple[Callable[..., Any], ...]
    step: int | None = None
    progress: int | None = None


def write_glue(plan: Plan) -> Glue:
    """Write the glue of a plan."""
    writer = Writer(plan)
    writer.steps(plan.steps, 2)
    args = ", ".join(
        [f"in{i}" for i in range(len(plan.fields))] + [f"out{i}" for i in range(len(plan.outputs))]
    )
    ops = ", ".join(dict.fromkeys(d.op.name for d in plan.decisions)) or "no op"
    lines = [
        *sorted(writer.imports.values(), key=lambda line: not line.startswith("from")),
        "",
        "",
        "@kernel",
        f"def run(rows, index, n, f, streams, params, records, arena, found, {args}):",
        "    p, d = params[0], records[0]",
        "    for r in range(rows.shape[0]):",
        "        i = index[r]",
        *writer.lines,
        "    return 0",
        "",
    ]
    return Glue(
        HEADER.format(ops=ops, columns=_columns(plan)) + "\n".join(lines),
        np.array(writer.numbers or [0], np.int64),
        np.array(writer.floats or [0.0], np.float64),
        tuple(writer.kernels),
        writer.places.get("step"),
        writer.places.get("progress"),
    )


def _columns(plan: Plan) -> str:
    """Describe the columns: they decide the types that the text is compiled for."""
    ins = [f"in{i}: {s.kind} {s.dtype}, {len(s.shape)} sides" for i, s in enumerate(plan.inputs)]
    outs = [f"out{i}: {o.kind} {o.dtype}, {len(o.shape)} sides" for i, o in enumerate(plan.outputs)]
    return "\n".join([*ins, *outs])


@dataclass
class Writer:
    """Writes the lines of a plan, and collects the numbers and functions that they name."""

    plan: Plan
    lines: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    imports: dict[str, str] = field(default_factory=dict)
    kernels: dict[Callable[..., Any], None] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    def steps(self, steps: tuple[Step, ...], depth: int) -> None:
        """Write steps at a depth of indentation."""
        for step in steps:
            if isinstance(step, IfStep):
                self.branch(step, depth)
                continue
            lines = self.step(step)
            self.lines += ["    " * depth + line for line in lines]

    def branch(self, step: IfStep, depth: int) -> None:
        """Write an `if` with its joins."""
        pad = "    " * depth
        self.lines.append(f"{pad}if {self.scalar(step.cond)} != 0:")
        for word, steps, side in (("", step.then, "then"), ("else:", step.orelse, "orelse")):
            if word:
                self.lines.append(pad + word)
            self.steps(steps, depth + 1)
            joins = [f"v{join.dst} = v{getattr(join, side)}" for join in step.joins]
            self.lines += [f"{pad}    {line}" for line in joins or ["pass"]]

    def step(self, step: Step) -> list[str]:
        """Return the lines of a step."""
        lines: list[str]
        match step:
            case InputStep():
                lines = self.take(step)
            case DrawStep():
                lines = self.draw(step.decision)
            case SameSizeStep():
                lines = self.same_size(step)
            case ApplyStep() | FoldStep():
                lines = [*self.destination(step), *self.calls(step)]
            case ItemsStep():
                lines = self.items(step)
            case ConvertStep():
                lines = self.convert(step)
            case StoreStep() | StoreSizedStep():
                lines = self.store(step)
            case ConstStep() | ContextStep() | ExprStep() | RecordStep():
                lines = [f"v{step.dst} = {self.value(step)}"]
            case IfStep():
                raise TypeError("an `if` has lines of its own")
        return lines

    def number(self, value: int) -> str:
        """Return the source of an integer of the plan; it stands in a table."""
        self.numbers.append(value)
        return f"n[{len(self.numbers) - 1}]"

    def scalar(self, value: int) -> str:
        """Source of a scalar as a number: a register, or the only element of a (1,) view."""
        in_register = self.plan.places[value].kind == "register"
        return f"v{value}" if in_register else f"v{value}[0]"

    def function(self, decision: Decision, what: str, fn: Callable[..., Any], path: str) -> str:
        """Return the name of a function of an op, imported by `path`."""
        op = name_of(decision.op)
        name = f"{what}_{op}" if op.isidentifier() else f"{what}_{len(self.imports)}"
        source = f"lookup({op!r}).{path}"
        for known, line in self.imports.items():
            if line == f"{known} = {source}":
                return known
        self.imports[name] = f"{name} = {source}"
        self.kernels[fn] = None
        return name

    def sides(self, value: int) -> tuple[str, str]:
        """Return the source of height and width of a value."""
        rank = len(self.plan.states[value].shape)
        if rank == 0:  # a number, which may lie in a register
            return "1", "1"
        return f"v{value}.shape[0]", f"v{value}.shape[1]" if rank > 1 else "1"

    def out_of_bounds(self, sides: tuple[str, ...], state: State) -> str:
        """Return the source of a test whether sides exceed a state's bounds."""
        tests = []
        for side, least, bound in zip(sides, state.least, state.bound, strict=False):
            low = self.number(least)
            tests.append(f"{side} < {low} or {side} > {self.number(bound)}")
        return " or ".join(tests)

    def refuse(self, test: str, check: int, got: tuple[str, str], *other: str) -> list[str]:
        """Return the lines that leave with a status where a test holds."""
        found = ", ".join((*got, *(other or ("0", "0"))))
        return [
            f"if {test}:",
            f"    found[0], found[1], found[2], found[3], found[4] = r, {found}",
            f"    return {self.number(check)}",
        ]

    def take(self, step: InputStep) -> list[str]:
        """Return the lines that take a field."""
        state, name = self.plan.states[step.dst], f"v{step.dst}"
        if not state.shape:
            return [f"{name} = mutable(in{step.column}[i : i + 1])"]
        sides = tuple(f"{name}.shape[{axis}]" for axis in range(len(state.shape)))
        test = self.out_of_bounds(sides, state)
        return [
            f"{name} = mutable(in{step.column}[i])",
            *self.refuse(test, step.check, self.sides(step.dst)),
        ]

    def draw(self, decision: Decision) -> list[str]:
        """Return the lines that make a decision."""
        op, k = type(decision.op), decision.index
        name = self.function(decision, "draw", op.draw, "draw")
        sizes = "0, 0" if decision.of is None else ", ".join(self.sides(decision.of))
        items = "" if decision.items is None else f", v{decision.items}"
        return [
            f'{name}(key_of(rows[r], streams[{k}]), p["d{k}"], {sizes}, d["d{k}"]{items})',
            f"found[{FAULT_WORDS + k}] = r + 1",
        ]

    def same_size(self, step: SameSizeStep) -> list[str]:
        """Return the lines that compare two sizes."""
        left, right = self.sides(step.left), self.sides(step.right)
        test = f"{left[0]} != {right[0]} or {left[1]} != {right[1]}"
        return self.refuse(test, step.check, left, *right)

    def calls(self, step: ApplyStep | FoldStep) -> list[str]:
        """Return the lines that call the kernel: once, or for each value of a fold."""
        k, folds = step.decision.index, isinstance(step, FoldStep)
        path = f"{'folds' if folds else 'kernels'}[{step.kind!r}].run"
        run = self.function(step.decision, step.kind, step.kernel.run, path)
        offset = self.plan.scratch.get(step.dst, 0)
        scratch = f"part(arena, {self.number(offset)}, {self.number(offset + step.scratch_bytes)})"
        rest = f'v{step.dst}, p["d{k}"], d["d{k}"]'
        if not folds:
            return [f"{run}(v{step.srcs[0]}, {rest}, {scratch})"]
        count, lines = self.number(len(step.srcs)), [f"t{step.dst} = {scratch}"]
        for place, src in enumerate(step.srcs):
            lines.append(f"{run}(v{src}, {self.number(place)}, {count}, {rest}, t{step.dst})")
        return lines

    def destination(self, step: ApplyStep | FoldStep) -> list[str]:
        """Return the lines that make the view of what a kernel writes."""
        lines: list[str] = []
        sides: tuple[str, str] | None = None
        if step.check is not None:
            sides = (f"h{step.dst}", f"w{step.dst}")
            lines.append(self.out_size(step.decision, step.srcs[0], sides))
            test = self.out_of_bounds(sides, self.plan.states[step.dst])
            lines += self.refuse(test, step.check, sides)
        return [*lines, f"v{step.dst} = {self.memory(step.dst, sides)}"]

    def out_size(self, decision: Decision, src: int, sides: tuple[str, str]) -> str:
        """Return the line that computes the size of what an op makes."""
        k, (height, width) = decision.index, self.sides(src)
        size = self.function(decision, "size", type(decision.op).out_size, "out_size")
        return f'{sides[0]}, {sides[1]} = {size}(p["d{k}"], d["d{k}"], {height}, {width})'

    def items(self, step: ItemsStep) -> list[str]:
        """Return the lines that move boxes or keypoints."""
        decision, op = step.decision, type(step.decision.op)
        memory, parts = f"m{step.dst}", f'p["d{decision.index}"], d["d{decision.index}"]'
        lines = [f"{memory} = {self.memory(step.dst, None)}"]
        sizes, given = f"s{step.dst}", "0, 0, 0, 0"
        if step.frame is not None:
            after = self.sides(step.frame)
            if op.out_size is not same_size:
                after = (f"h{step.dst}", f"w{step.dst}")
                lines.append(self.out_size(decision, step.frame, after))
            given = ", ".join((*self.sides(step.frame), *after))
        lines.append(f"{sizes} = ({given})")
        visible = visible_word(self.plan.states[step.src])
        if step.kernel is not None:
            path = f"items[{step.kind!r}].run"
            run = self.function(decision, f"{step.kind}", step.kernel.run, path)
            told = f", {self.number(visible)}" if step.kernel.visible else ""
            call = f"{run}(v{step.src}, {memory}, {parts}, {sizes}{told})"
        else:
            forward = self.function(decision, "forward", step.forward, "forward")
            run = MOVERS[step.kind].__name__
            self.imports[run] = f"from {MOVERS[step.kind].__module__} import {run}"
            numbers = f"{forward}({parts}, {sizes})"
            word = self.number(visible)
            call = f"{run}(v{step.src}, {memory}, {numbers}, {sizes}, {word})"
        count, most = f"c{step.dst}", f"v{step.src}.shape[0]"
        lines.append(f"{count} = {call}")
        lines += self.refuse(f"{count} < 0 or {count} > {most}", step.check, (count, most))
        return [*lines, f"v{step.dst} = {memory}[:{count}]"]

    def memory(self, value: int, sides: tuple[str, str] | None) -> str:
        """Source of the view of a value's place; `sides` are height and width if they vary."""
        state, place = self.plan.states[value], self.plan.places[value]
        if place.kind == "output":
            return f"out{place.index}[r]" if state.shape else f"out{place.index}[r : r + 1]"
        names = [self.number(bound) for bound in state.bound] or ["1"]
        if sides is not None:
            names[:2] = list(sides)[: len(names)]
        dtype = np.dtype(physical(state.dtype))
        start = self.number(place.index)
        if dtype == np.uint8 and len(names) in SHAPED:
            return f"{SHAPED[len(names)].__name__}(arena, {start}, {', '.join(names)})"
        length = " * ".join([*names, str(dtype.itemsize)] if dtype.itemsize > 1 else names)
        view = "" if dtype == np.uint8 else f".view(np.{_numpy_name(dtype)})"
        shape = ", ".join(names) + ("," if len(names) == 1 else "")
        return f"arena[{start} : {start} + {length}]{view}.reshape(({shape}))"

    def convert(self, step: ConvertStep) -> list[str]:
        """Return the lines that copy with another dtype or rank."""
        state, dst = self.plan.states[step.dst], f"v{step.dst}"
        if self.plan.places[step.dst].kind == "register":
            return [f"{dst} = np.{_numpy_name(np.dtype(state.dtype))}({self.scalar(step.src)})"]
        if self.plan.places[step.src].kind == "register":
            return [f"{dst} = {self.memory(step.dst, None)}", f"{dst}[0] = v{step.src}"]
        sides = None if state.is_fixed else self.sides(step.src)
        return [f"{dst} = {self.memory(step.dst, sides)}", f"copy(v{step.src}, {dst})"]

    def store(self, step: StoreStep | StoreSizedStep) -> list[str]:
        """Return the lines that copy a value into an output's row."""
        if isinstance(step, StoreSizedStep):
            return self.store_sized(step)
        if not self.plan.outputs[step.output].shape:
            return [f"out{step.output}[r] = {self.scalar(step.src)}"]
        return [f"copy(v{step.src}, out{step.output}[r])"]

    def store_sized(self, step: StoreSizedStep) -> list[str]:
        """Return the lines that copy a value of a size of its own, and its size."""
        src, out, sizes = f"v{step.src}", f"out{step.output}", f"out{step.output + 1}"
        store = store_padded if step.form.form == "pad" else store_packed
        self.imports[store.__name__] = f"from {store.__module__} import {store.__name__}"
        if store is store_packed:
            return [f"store_packed({src}, {out}, {sizes}, r)"]
        fill = fill_number(step.form.fill, self.plan.outputs[step.output].dtype)
        if isinstance(fill, float):
            self.floats.append(fill)
        source = f"f[{len(self.floats) - 1}]" if isinstance(fill, float) else self.number(fill)
        room = (f"{out}.shape[1]", f"{out}.shape[2]" if len(step.varies) > 1 else "1")
        test = f"not store_padded({src}, {out}, {sizes}, r, {source})"
        return self.refuse(test, step.check, self.sides(step.src), *room)

    def value(self, step: ConstStep | ContextStep | ExprStep | RecordStep) -> str:
        """Return the source of a scalar that a step makes."""
        source: str
        match step:
            case ConstStep(value=float()):
                self.floats.append(float(step.value))
                source = f"f[{len(self.floats) - 1}]"
            case ConstStep():
                is_bool = " != 0" if isinstance(step.value, bool) else ""
                source = self.number(int(step.value)) + is_bool
            case ContextStep(name="step"):
                self.places["step"] = len(self.numbers)
                source = self.number(0)
            case ContextStep(name="progress"):
                self.places["progress"] = len(self.floats)
                self.floats.append(0.0)
                source = f"f[{len(self.floats) - 1}]"
            case ContextStep():
                source = f"np.int64({ROW_WORDS[step.name]})"
            case RecordStep():
                read = f'd["d{step.decision.index}"]["{step.name}"]'
                source = f"np.{_numpy_name(np.dtype(step.type_))}({read})"
            case ExprStep():
                source = self.expression(step)
        return source

    def expression(self, step: ExprStep) -> str:
        """Return the source of an expression."""
        if step.op in ("height", "width"):
            return self.sides(step.args[0])[step.op == "width"]
        if step.op == "count":
            return f"v{step.args[0]}.shape[0]"
        if step.op in STATISTICS:
            return f"{step.op}_of(v{step.args[0]})"
        args = [self.scalar(arg) for arg in step.args]
        return expressions.source(step.op, args, list(step.types))


def _numpy_name(dtype: np.dtype[Any]) -> str:
    return "bool_" if dtype == np.bool_ else dtype.name
