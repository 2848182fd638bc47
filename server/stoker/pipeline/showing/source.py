"""A plan as a Python module that a person can read and run: `stoker explain --source`.

The program that the machine executes is a table of numbers; here each of its calls is a line of
Python, with op, kind, parameters, buffer and branches written out. `row(fields, ...)` of the module
calls the plain forms of the ops and returns a row's outputs, byte for byte those of machine code.
Left out are the bounds of sizes (but not that values of one call agree), frozen streams, and what
is done with finished rows: batch ops and padding.

The text is a function of the plan alone. numba-free; nothing here executes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.ops.contract.op import Op, no_draw, same_size
from stoker.ops.contract.rules import visible_word
from stoker.pipeline.graph.statistics import STATISTICS
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
    LevelsStep,
    RecordStep,
    RescaleStep,
    SameSizeStep,
    Step,
    made_for,
    source_of,
)
from stoker.pipeline.planning.tables import physical
from stoker.pipeline.showing.explain import about, mixes
from stoker.pipeline.showing.source_scalars import HELPERS, expression, formula, parameters
from stoker.protocol.items import COUNT
from stoker.protocol.layout import SIZE

_IMPORTS = """\
import numpy as np

from stoker.ops.kernels.points import MOVERS
from stoker.ops._testing.memory import structured
from stoker.pipeline.plain.interpreter import size_of
from stoker.pipeline.plain.calls import whole_sides
from stoker.pipeline.graph.statistics import statistic
from stoker.rng.streams import make_key, stream_key
"""
_ROW = '''\
@np.errstate(all="ignore")  # as machine code has it
def row(fields, *, seed=0, epoch=0, id=0, visit=0, view=0, step=0, progress=0.0):
    """Compute a row: name of a field -> its value, to name of an output -> array."""

    def key(stream, view=view):
        return make_key(seed, stream_key(stream), id, epoch, visit, view)

'''


def source(plan: Plan) -> str:
    """Return the text of the module; it ends with a new line."""
    writer = _Writer(plan)
    made = "\n".join(writer.made())
    body = [*writer.block(plan.steps), *writer.returned()]
    return "\n".join(
        [
            f'"""Pipeline {plan.pipeline_id}: one row of it, by plain NumPy."""\n',
            _IMPORTS + "".join(f"{line}\n" for line in writer.imported()),
            *([f"{made}\n"] if made else []),
            f"\n{HELPERS}\n",
            _ROW + "\n".join(f"    {line}".rstrip() for line in body) + "\n",
        ]
    )


class _Writer:
    """Writes the parts of a module; lines of `row` are not indented yet."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._numbers: set[int] = set()
        self._names: dict[type[Op], str] = {}
        for decision in plan.decisions:
            kind, taken = type(decision.op), set(self._names.values())
            if kind not in self._names:
                name = kind.__qualname__.replace(".", "_")
                self._names[kind] = name if name not in taken else f"{name}_{len(taken)}"

    def imported(self) -> list[str]:
        """Return the imports of the ops' classes."""
        return sorted(
            f"from {kind.__module__} import {kind.__qualname__}"
            + f" as {name}" * (name != kind.__qualname__)
            for kind, name in self._names.items()
        )

    def made(self) -> Iterator[str]:
        """Make the ops and their parameters."""
        for decision in self._plan.decisions:
            if decision.schedule is None:
                given = repr(decision.op).removeprefix(type(decision.op).__qualname__)
                yield from self._made(decision, given)

    def _made(self, decision: Decision, given: str) -> Iterator[str]:
        name, n = self._names[type(decision.op)], decision.index
        yield f"op{n} = {name}{given}"
        yield f"p{n} = structured({name}.parameters, op{n}.params())"

    def returned(self) -> Iterator[str]:
        """Return the outputs; how many boxes there are, and sizes, are in the arrays themselves."""
        yield from (f"# {line.strip()}" for line in mixes(self._plan))
        yield "return {"
        for output, value in zip(self._plan.outputs, self._plan.stores, strict=True):
            if output.kind not in (COUNT, SIZE):
                dtype = physical(output.dtype)
                what = f"v{value}" if output.shape else self._number(value)
                bits = "" if dtype == output.dtype else f'.view("{output.dtype}")'
                yield f'    "{output.name}": np.asarray({what}, "{dtype}"){bits},'
        yield "}"

    def block(self, steps: tuple[Step, ...]) -> Iterator[str]:
        """Write steps."""
        for step in steps:
            if isinstance(step, IfStep):
                yield from self._branches(step)
            else:
                yield from self._step(step)

    def _branches(self, step: IfStep) -> Iterator[str]:
        site = self._plan.graph.site(step.cond)
        yield f"if {self._number(step.cond)} != 0:  # {site}"
        for word, block, side in (("", step.then, "then"), ("else:", step.orelse, "orelse")):
            if word:
                yield word
            lines = [*self.block(block), *(f"v{j.dst} = v{getattr(j, side)}" for j in step.joins)]
            yield from (f"    {line}" for line in lines or ["pass"])
        ways = [(j.then, j.orelse, j.dst) for j in step.joins]
        self._numbers |= {dst for a, b, dst in ways if {a, b} <= self._numbers}

    def _step(self, step: Step) -> Iterator[str]:
        match step:
            case InputStep():
                yield from self._take(step)
            case RescaleStep():
                yield from self._rescale(step)
            case DrawStep():
                yield from self._draw(step.decision)
            case SameSizeStep():
                what = self._plan.checks[step.check - 1].what.replace('"', "'")
                yield f'assert size_of(v{step.left}) == size_of(v{step.right}), "{what}"'
            case ApplyStep() | FoldStep():
                yield from self._apply(step)
            case LevelsStep(applies=applies):
                yield from self.block(applies)
            case ItemsStep():
                yield from self._items(step)
            case ConvertStep():
                yield self._convert(step)
            case ConstStep() | ContextStep() | RecordStep() | ExprStep():
                self._numbers.add(step.dst)
                yield f"v{step.dst} = {self._scalar(step)}"

    def _take(self, step: InputStep) -> Iterator[str]:
        state, name = self._plan.states[step.dst], self._plan.fields[step.column]
        bits = "" if physical(state.dtype) == state.dtype else f'.view("{physical(state.dtype)}")'
        value = f'np.asarray(fields["{name}"], "{state.dtype}")'
        yield f"v{step.dst} = np.atleast_1d({value}){bits}{self._about(step.dst)}"

    def _draw(self, decision: Decision) -> Iterator[str]:
        n, name = decision.index, self._names[type(decision.op)]
        yield f"# {name}: {decision.site}"
        if decision.schedule is not None:
            yield from formula(decision.schedule)
            yield from self._made(decision, f"({parameters(decision.schedule)})")
        yield f"d{n} = structured({name}.record)"
        if type(decision.op).draw is no_draw:
            return
        key = "make_key(0, 0, 0, 0)"
        if decision.stream is not None:
            key = f'key("{decision.stream}"{", view=0" * decision.shared})'
        size = "0, 0" if decision.of is None else f"*size_of(v{decision.of})"
        looked_at = "" if decision.items is None else f", v{decision.items}"
        yield f"{name}.draw({key}, p{n}, {size}, d{n}{looked_at})"

    def _rescale(self, step: RescaleStep) -> Iterator[str]:
        decision, source = step.decision, source_of(step.decision)
        n, name = decision.index, self._names[type(decision.op)]
        if decision.schedule is not None:
            yield f"p{n} = p{source.index}"
        yield f"d{n} = structured({name}.record, d{source.index})"
        yield f"sizes = (*size_of(v{made_for(source)}), *size_of(v{made_for(decision)}))"
        what = self._plan.checks[step.check - 1].what.replace('"', "'")
        yield f'assert sizes[:2] == sizes[2:] or {name}.rescale(p{n}, d{n}, sizes), "{what}"'

    def _apply(self, step: ApplyStep | FoldStep) -> Iterator[str]:
        state, n, dst = self._plan.states[step.dst], step.decision.index, step.dst
        shape = str(tuple(side or 0 for side in state.shape) or (1,))
        if step.check is not None:
            rest = "".join(f", {side}" for side in state.shape[2:])
            after = self._after(step.decision, step.srcs[0])
            shape = f"(*{after}{rest or ','})" if len(state.shape) > 1 else f"{after}[:1]"
        yield f'v{dst} = np.empty({shape}, "{physical(state.dtype)}"){self._about(dst)}'
        rules = f"{self._names[type(step.decision.op)]}.{_word(step)}"
        if isinstance(step, FoldStep):
            given = f"[{', '.join(f'v{src}' for src in step.srcs)}], v{dst}, p{n}, d{n}"
        else:
            given = f"v{step.src}, v{dst}, p{n}, d{n}, None"
        yield f'{rules}["{step.kind}"].plain({given})'

    def _items(self, step: ItemsStep) -> Iterator[str]:
        n, src, dst = step.decision.index, step.src, step.dst
        name, visible = self._names[type(step.decision.op)], visible_word(self._plan.states[src])
        sizes = "(0, 0, 0, 0)"
        if step.frame is not None:
            sizes = f"(*size_of(v{step.frame}), *{self._after(step.decision, step.frame)})"
        yield f"sizes = {sizes}"
        bound = self._plan.states[dst].bound
        yield f'v{dst} = np.zeros({bound}, "uint32"){self._about(dst)}'
        if step.kernel is not None:
            told = f", {visible}" * step.kernel.visible
            run = f'{name}.items["{step.kind}"].run(v{src}, v{dst}, p{n}, d{n}, sizes{told})'
        else:
            where = f"{name}.forward(p{n}, d{n}, sizes)"
            run = f'MOVERS["{step.kind}"](v{src}, v{dst}, {where}, sizes, {visible})'
        yield f"v{dst} = v{dst}[: int({run})]"

    def _after(self, decision: Decision, value: int) -> str:
        """Return the size that an op makes of a value's."""
        n, name = decision.index, self._names[type(decision.op)]
        if type(decision.op).out_size is same_size:
            return f"size_of(v{value})"
        return f"whole_sides({name}.out_size(p{n}, d{n}, *size_of(v{value})))"

    def _convert(self, step: ConvertStep) -> str:
        state, dst = self._plan.states[step.dst], step.dst
        dtype = physical(state.dtype)
        if self._plan.places[dst].kind == "register":
            self._numbers.add(dst)
            return f'v{dst} = np.dtype("{dtype}").type({self._number(step.src)}).item()'
        before = self._plan.states[step.src]
        grown = "[..., None]" if len(state.shape) > max(len(before.shape), 1) else ""
        made = f'np.atleast_1d(v{step.src}).astype("{dtype}"){grown}'
        return f"v{dst} = {made}{self._about(dst)}"

    def _scalar(self, step: ConstStep | ContextStep | RecordStep | ExprStep) -> str:
        match step:
            case ConstStep():
                return repr(step.value)
            case ContextStep():
                return step.name
            case RecordStep():
                return f'd{step.decision.index}["{step.name}"].item()'
            case ExprStep():
                return self._computed(step)

    def _computed(self, step: ExprStep) -> str:
        if step.op in ("height", "width"):
            return f"size_of(v{step.args[0]})[{int(step.op == 'width')}]"
        if step.op == "count":
            return f"len(v{step.args[0]})"
        if step.op in STATISTICS:
            return f'statistic("{step.op}", v{step.args[0]})'
        return expression(step.op, [self._number(arg) for arg in step.args], step.types)

    def _number(self, value: int) -> str:
        return f"v{value}" if value in self._numbers else f"number(v{value})"

    def _about(self, value: int) -> str:
        return f"  #{about(self._plan, value)[1:]}"


def _word(step: ApplyStep | FoldStep) -> str:
    return "folds" if isinstance(step, FoldStep) else "kernels"
