"""Binding: from nodes and field states to steps and the state of every value.

One walk over the normal form. Ops declare their states here. Sizes are compared if an op decides
for several values: they are equal by construction (the same decisions on both), equal because both
are fixed, or checked for each sample by a `SameSizeStep`. A value keeps a `size` token; equal
tokens mean that the heights and widths are known to be equal. A check inside a branch proves
nothing after it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NoReturn, TypeVar

import numpy as np

from stoker.ops.bases.batch import BatchOp
from stoker.ops.contract.op import IMAGE_KINDS, ITEM_KINDS, Op, State, same_size
from stoker.ops.contract.registry import make
from stoker.ops.contract.relative import keep_record
from stoker.ops.custom.purity import check_purity
from stoker.pipeline.graph import expressions
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import (
    Apply,
    Const,
    Context,
    Draw,
    Expr,
    Form,
    If,
    Input,
    Node,
)
from stoker.pipeline.graph.normal import first_inside, number_nodes
from stoker.pipeline.graph.schedule import FIRST, Formulas
from stoker.pipeline.graph.statistics import STATISTICS, check_statistic
from stoker.pipeline.planning.carrying import refusal
from stoker.pipeline.planning.declared import check_class, declared, declared_items, fault_of
from stoker.pipeline.planning.formed import formed_output
from stoker.pipeline.planning.joining import join_states, listed_values
from stoker.pipeline.planning.mixes import Mix, Mixes
from stoker.pipeline.planning.steps import (
    ApplyStep,
    Check,
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
    Join,
    RecordStep,
    RescaleStep,
    SameSizeStep,
    Step,
    StoreSizedStep,
    StoreStep,
)
from stoker.protocol.errors import BuildError, StokerError, UsageError, VersionError
from stoker.protocol.items import COUNT, DTYPES
from stoker.protocol.layout import SIZE, Output, check_outputs

HINT: Final = (
    "choose how rows of differing shape make a batch: outputs.pad(...), outputs.ragged(...) or "
    "outputs.as_list(...) of it"
)

Size = tuple[object, ...]
T = TypeVar("T")
FIXERS = "resize, center_crop, random_crop or random_resized_crop"


class Binder:
    """The walk; `bind` returns it filled.

    Attributes:
        graph: the normal form.
        fields: field name -> value number.
        states: value number -> state.
        decisions, checks, outputs, stores, steps, mixes: see `Plan`.
        registers: values that are scalars in registers: constants, expressions, joins of scalars.
    """

    def __init__(self, graph: Graph, states: Mapping[str, State]) -> None:
        self.graph = graph
        self.given = states
        self.fields: dict[str, int] = {}
        self.states: dict[int, State] = {}
        self.decisions: list[Decision] = []
        self.checks: list[Check] = []
        self.outputs: list[Output] = []
        self.stores: list[int] = []
        self.steps: tuple[Step, ...] = ()
        self.mixes: tuple[Mix, ...] = ()
        self.registers: set[int] = set()
        self._mixing = Mixes()
        self._draws: dict[int, Decision] = {}
        self._sizes: dict[int, Size] = {}
        self._equal: dict[Size, Size] = {}
        self._frames: dict[Size, Size] = {}  # of items for which the dataset names no image
        self._next = number_nodes(graph.nodes, 0)[1]
        self._formulas = Formulas(graph)
        self._listed = listed_values(graph)

    def bind(self) -> Binder:
        """Walk the graph.

        Raises:
            BuildError: see `stoker.pipeline.planning.plan.bind`.
        """
        steps: list[Step] = []
        delivered: list[int] = []
        self._nodes(self.graph.nodes, 0, steps)
        forms = {form.output: form for form in self.graph.forms}
        for name, mixed in self.graph.outputs:
            value = self._mixing.roots.get(mixed, mixed)
            if name in forms:
                self._form_fits(forms[name], mixed, value)
                self._store_sized(forms[name], value, steps)
                delivered += [mixed, mixed]
                continue
            self._store(self._output(name, value), value, steps)
            delivered.append(mixed)
            if self.states[value].items:
                count = self.new_value()
                self._scalar(count, int)
                steps.append(ExprStep(count, "count", (value,), ("",)))
                self._store(Output(f"{name}.{COUNT}", "int64", (), "count"), count, steps)
                delivered.append(count)
        self.mixes = self._mixing.collect(self.outputs, delivered)
        try:
            check_outputs(tuple(self.outputs))
        except UsageError as error:
            raise BuildError(error.message) from None
        self.steps = tuple(steps)
        return self

    def _store(self, output: Output, value: int, steps: list[Step]) -> None:
        steps.append(StoreStep(len(self.outputs), value))
        self.outputs.append(output)
        self.stores.append(value)

    def _form_fits(self, form: Form, mixed: int, value: int) -> None:
        """Refuse combinations of forms and batch ops that cannot work."""
        if mixed != value:
            self._fail(
                mixed,
                f"output {form.output!r}: a batch op mixes rows of one shape, so the output cannot "
                f"have a form ({form.form}): return it as it is",
                output=form.output,
            )
        if form.form == "pad" and self._mixing.roots:
            self._fail(
                value,
                f"output {form.output!r}: a pipeline with batch ops cannot pad, since rows that are"
                " mixed are computed for others too: deliver it by outputs.as_list or "
                "outputs.ragged",
                output=form.output,
            )

    def _store_sized(self, form: Form, value: int, steps: list[Step]) -> None:
        """Store a value whose rows differ in shape, and their sizes."""
        state, name = self.states[value], form.output
        output = self._within(value, f"output {name!r}", lambda: formed_output(form, state))
        check = self._check("padded", f"output {name!r} is {state}", value)
        steps.append(StoreSizedStep(len(self.outputs), value, form, output.varies, check))
        sizes = Output(f"{name}.{SIZE}", "int64", (len(output.varies),), SIZE)
        self.outputs += [output, sizes]
        self.stores += [value, value]

    def new_value(self) -> int:
        """Return the number of a value that the graph does not have."""
        self._next += 1
        return self._next - 1

    def _nodes(self, nodes: tuple[Node, ...], start: int, steps: list[Step]) -> None:
        for node, first in number_nodes(nodes, start)[0]:
            match node:
                case Input():
                    self._input(node, first, steps)
                case Const():
                    self._scalar(first, type(node.value))
                    steps.append(ConstStep(first, node.value))
                case Context():
                    self._scalar(first, float if node.name == "progress" else int)
                    steps.append(ContextStep(first, node.name))
                case Draw():
                    self._draw(node, first, steps)
                case Apply():
                    self._apply(node, first, steps)
                case Expr():
                    self._expr(node, first, steps)
                case If():
                    self._if(node, first, steps)

    def _input(self, node: Input, value: int, steps: list[Step]) -> None:
        if node.field not in self.given:
            near = difflib.get_close_matches(node.field, self.given, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            self._fail(
                value,
                f"the dataset has no field {node.field!r}; {hint}it has: "
                f"{', '.join(sorted(self.given)) or 'no fields'}",
                field=node.field,
            )
        state = self.given[node.field]
        if state.dtype not in DTYPES:
            self._fail(
                value,
                f"field {node.field!r} is {state}: its dtype is not supported; expected one of: "
                f"{', '.join(DTYPES)}",
                field=node.field,
            )
        fault = fault_of(state)
        if fault is not None:
            self._fail(
                value,
                f"field {node.field!r}: the manifest says {state.kind} {state.dtype} of shape "
                f"{state.shape} with bound {state.bound}: {fault}; the dataset's manifest is "
                "damaged, pack it again",
                field=node.field,
            )
        check = self._check("input", f"field {node.field!r} is {state}", value, node.field)
        steps.append(InputStep(value, len(self.fields), check))
        self.fields[node.field] = value
        self.states[value] = state
        if state.kind in IMAGE_KINDS:
            self._sizes[value] = ("field", node.field)
        elif state.items:
            self._sizes[value] = ("field", state.of) if state.of else ("free", value)

    def _scalar(self, value: int, kind: type | str) -> None:
        names: dict[type, str] = {bool: "bool", int: "int64", float: "float64"}
        dtype = kind if isinstance(kind, str) else names[kind]
        self.states[value] = State.fixed("scalar", dtype, ())
        self.registers.add(value)

    def _draw(self, node: Draw, value: int, steps: list[Step]) -> None:
        site = self.graph.site(value)
        schedule = self._within(value, node.op, lambda: self._formulas.schedule(node))
        params = schedule.at(FIRST) if schedule else node.params
        op = self._within(value, node.op, lambda: make(node.op, params, node.version))
        self._within(value, op.name, lambda: check_class(type(op)))
        self._within(value, op.name, lambda: check_purity(type(op)))
        if op.version != node.version:
            raise VersionError(
                f"{site}: {node.op}: the pipeline was made for version {node.version}, this is "
                f"version {op.version}. Use the same version of Stoker on both sides; a saved "
                "pipeline runs only with its own version; make it again to get a new stream",
                op=node.op,
            )
        of = node.of[0] if node.of else None
        if isinstance(op, BatchOp):
            of = None  # it draws without a size; an array in CHW would give another size
        else:
            self._unmixed(node.of, value)
        if op.random and node.stream is None:
            self._fail(value, f"{op.name} is random and needs a stream name", op=op.name)
        items = self._looked_at(op, node, value) if op.draws_from else None
        decision = Decision(
            len(self.decisions), op, node.stream, of, site, schedule, node.shared, items
        )
        if of is not None and items is not None:
            self._same_frame(decision, of, items, steps)
        self.decisions.append(decision)
        self._draws[value] = decision
        steps.append(DrawStep(decision))

    def _looked_at(self, op: Op, node: Draw, value: int) -> int:
        """Return the boxes or keypoints that a decision reads."""
        kind = op.draws_from
        found = [v for v in node.of if self.states[v].kind == kind]
        if len(found) != 1 or self.states[node.of[0]].kind not in IMAGE_KINDS:
            got = ", ".join(str(self.states[v]) for v in node.of) or "nothing"
            self._fail(
                value,
                f"{op.name} decides from {kind}: call it with an image or mask first, and with one "
                f"value of {kind}, as in {op.name}(image, {kind}); got {got}",
                op=op.name,
            )
        self._within(value, op.name, lambda: op.declare_items(self.states[found[0]]))
        return found[0]

    def _apply(self, node: Apply, value: int, steps: list[Step]) -> None:
        decision = self._draws[node.draw]
        op, states = decision.op, tuple(self.states[src] for src in node.to)
        if node.relative and (op.folds or isinstance(op, BatchOp)):
            self._fail(
                value,
                f"{op.name} makes one value of several, which must have one size: remove "
                "relative=True, and resize them first",
                op=op.name,
            )
        if isinstance(op, BatchOp):
            self._mix(op, decision, node.to[0], value)
            return
        self._unmixed(node.to, value)
        kind = states[0].kind
        if len(states) > 1 and not op.folds:
            self._fail(
                value,
                f"{op.name} takes one value per result; it cannot merge {len(states)} values "
                "into one",
                op=op.name,
            )
        if kind in ITEM_KINDS and not op.folds:
            self._apply_items(decision, node.to[0], value, steps)
            return
        result, scratch = self._declared(op, states, value)
        srcs = tuple(self._in_memory(src, steps) for src in node.to)
        for src in srcs:
            if node.relative:
                decision = self._carried(decision, src, value, steps)
            else:
                self._same_size(decision, src, value, steps)
        check = None
        if not result.is_fixed:
            check = self._check("out_size", f"{op.name} on {states[0]}", value)
        self.states[value] = result
        self._sizes[value] = self._out_size(decision, srcs[0])
        site, dtype = self.graph.site(value), states[0].dtype
        if op.folds:
            steps.append(FoldStep(decision, kind, srcs, value, scratch, check, site, dtype))
        else:
            steps.append(ApplyStep(decision, kind, srcs[0], value, scratch, check, site, dtype))

    def _in_memory(self, value: int, steps: list[Step]) -> int:
        """Return a value that kernels can take: for a value in a register, a copy in memory."""
        if value not in self.registers:
            return value
        return self._convert(value, self.states[value], steps, register=False)

    def _mix(self, op: BatchOp, decision: Decision, src: int, value: int) -> None:
        state = self.states[src]
        self.states[value] = self._within(value, f"{op.name} on {state}", lambda: op.mixed(state))
        self._mixing.add(decision, src, value, state)

    def _unmixed(self, values: Sequence[int], by: int) -> None:
        """Refuse values that a batch op made: they do not exist while a row is computed."""
        for value in values:
            if value in self._mixing.roots:
                made = self._mixing.last(value)
                self._fail(
                    by,
                    f"this reads the result of {made.op.name} (at {made.site}), made from other "
                    "rows: only outputs and other batch ops may follow a batch op. Move this before"
                    " it",
                    op=made.op.name,
                )

    def _apply_items(self, decision: Decision, src: int, value: int, steps: list[Step]) -> None:
        op, state, of = decision.op, self.states[src], decision.of
        self.states[value] = self._within(
            value, f"{op.name} on {state}", lambda: declared_items(op, state)
        )
        frame = of if of is not None and self.states[of].kind in IMAGE_KINDS else None
        if frame is not None:
            self._same_frame(decision, frame, src, steps)
        elif state.kind not in op.items:
            self._fail(
                value,
                f"{op.name} moves {state.kind} along with an image: call it with both, the image "
                f"first, as in {op.name}(image, {state.kind}), or call the same instance with the "
                "image before",
                op=op.name,
            )
        self._sizes[value] = self._out_size(decision, src)
        check = self._check("items", f"{op.name} on {state}", value)
        site = self.graph.site(value)
        steps.append(ItemsStep(decision, state.kind, src, value, frame, check, site))

    def _same_frame(self, decision: Decision, frame: int, src: int, steps: list[Step]) -> None:
        """Check that items count in pixels of the size that an image has at this point."""
        have, need = self._size(src), self._size(frame)
        if have == need:
            return
        if have[0] == "free":  # they follow the first image, also if a branch comes first
            self._frames[have] = need
            return
        if {have[0], need[0]} != {"field"}:
            self._fail(
                src,
                f"{decision.op.name} (at {decision.site}) is applied to {self._named(frame)} and "
                f"to {self._named(src)}, but these {self.states[src].kind} do not count in pixels "
                "of the size that it has there: transform an image and its "
                f"{self.states[src].kind} in the same call",
                op=decision.op.name,
            )
        other = self.fields.get(str(have[1]))
        if other is not None:
            what = f"{decision.op.name} on {self._named(frame)} and {self._named(src)}"
            check = self._check("same_size", what, src)
            steps.append(SameSizeStep(decision, frame, other, check))
        self._equal[have] = need

    def _declared(self, op: Op, given: tuple[State, ...], value: int) -> tuple[State, int]:
        on = " and ".join(dict.fromkeys(map(str, given)))
        if any(None in state.shape[2:] for state in given):
            self._fail(
                value,
                f"{op.name} on {on}: a value that joins branches of other shapes can only be "
                "delivered, by outputs.as_list: call the op inside the branches",
                op=op.name,
            )
        state, scratch = self._within(value, f"{op.name} on {on}", lambda: declared(op, given))
        if any(side is None for side in state.shape[2:]):
            self._fail(
                value,
                f"{op.name} would give {state} for {on}: only the first two sides may "
                f"differ from sample to sample; fix the size before it with {FIXERS}",
                op=op.name,
            )
        return state, scratch

    def _out_size(self, decision: Decision, src: int) -> Size:
        if decision.op.out_size is same_size:
            return self._size(src)
        root = decision.source or decision
        return ("out", root.index, self._size(src))

    def _size(self, value: int) -> Size:
        size = self._sizes.get(value, ("value", value))
        while size in self._equal or size in self._frames:
            size = self._frames[size] if size in self._frames else self._equal[size]
        return size

    def _unlike(self, decision: Decision, src: int) -> int | None:
        """Return the value that a decision is made for, if another value may differ in size."""
        of = decision.of
        if of is None or of == src or self._size(of) == self._size(src):
            return None
        first, other = self.states[of], self.states[src]
        if first.kind not in IMAGE_KINDS or other.kind not in IMAGE_KINDS:
            return None
        sides = first.shape[:2]
        if None not in sides and sides == other.shape[:2]:
            self._equal[self._size(src)] = self._size(of)
            return None
        return of

    def _same_size(self, decision: Decision, src: int, value: int, steps: list[Step]) -> None:
        of = self._unlike(decision, src)
        if of is None:
            return
        first, other = self.states[of], self.states[src]
        sides = zip(first.shape[:2], other.shape[:2], strict=True)
        if any(a is not None and b is not None and a != b for a, b in sides):
            say = "" if decision.op.rescale is None else ", call it with relative=True"
            self._fail(
                value,
                f"{decision.op.name}: one decision (made at {decision.site}) is applied to {first} "
                f"and to {other}: fields that are transformed together must have one height and "
                f"width. Resize one of them first{say}, or give each its own call and stream",
                op=decision.op.name,
            )
        what = f"{decision.op.name} on {self._named(of)} and {self._named(src)}"
        kind = "same_size" if decision.op.rescale is None else "relative"
        steps.append(SameSizeStep(decision, of, src, self._check(kind, what, value)))
        self._equal[self._size(src)] = self._size(of)

    def _carried(self, decision: Decision, src: int, value: int, steps: list[Step]) -> Decision:
        """Return the decision for a value that may differ in size, scaled to the value's sides.

        A value that is known to have the size of the decision follows the decision itself.
        """
        of, op = self._unlike(decision, src), decision.op
        if of is None or op.rescale is keep_record:
            return decision
        made = replace(
            decision, index=len(self.decisions), stream=None, of=src, items=None, source=decision
        )
        what = f"{op.name} on {self._named(of)} and {self._named(src)}"
        why = refusal(made, self.states)
        if why is not None:
            states = f"{self.states[of]} and {self.states[src]}"
            self._fail(value, f"{what}, {states}: {why}", op=op.name)
        self.decisions.append(made)
        steps.append(RescaleStep(made, self._check("ratio", what, value)))
        return made

    def _named(self, value: int) -> str:
        names = [name for name, number in self.fields.items() if number == value]
        return (
            f"field {names[0]!r}"
            if names
            else f"the {self.states[value].kind} from line {self.graph.site(value).line}"
        )

    def _expr(self, node: Expr, value: int, steps: list[Step]) -> None:
        if node.op == "record":
            self._record(node, value, steps)
            return
        self._unmixed(node.args, value)
        states = [self.states[arg] for arg in node.args]
        types = self._within(value, node.op, lambda: _argument_types(node.op, states))
        result = self._within(value, node.op, lambda: expressions.result_type(node.op, types))
        self._scalar(value, result)
        steps.append(ExprStep(value, node.op, node.args, tuple(types)))

    def _record(self, node: Expr, value: int, steps: list[Step]) -> None:
        decision = self._draws[node.args[0]]
        record = decision.op.record
        if node.name not in (record.names or ()) or record[node.name].shape:
            self._fail(
                value,
                f"a decision of {decision.op.name} has no number {node.name!r}; it has: "
                f"{', '.join(n for n in record.names or () if not record[n].shape)}",
                op=decision.op.name,
            )
        kind = self._within(value, node.name, lambda: expressions.widened(str(record[node.name])))
        self._scalar(value, kind)
        steps.append(RecordStep(value, decision, node.name, kind))

    def _if(self, node: If, first: int, steps: list[Step]) -> None:
        cond = self.states[node.cond]
        self._within(first, "if", lambda: _argument_types("not", [cond]))
        inner: list[list[Step]] = []
        for block, start in zip((node.then, node.orelse), first_inside(node, first), strict=True):
            proved = dict(self._equal)
            inner.append([])
            self._nodes(block.nodes, start, inner[-1])
            self._equal = proved
        joins = []
        for index, pair in enumerate(zip(node.then.results, node.orelse.results, strict=True)):
            if self._mixing.roots.keys().isdisjoint(pair):
                joins.append(self._join(first, first + index, pair, inner))
            else:
                self._join_mixed(first + index, pair)
        steps.append(IfStep(node.cond, tuple(inner[0]), tuple(inner[1]), tuple(joins)))

    def _join_mixed(self, value: int, pair: tuple[int, int]) -> None:
        """Join values that batch ops made in branches from one value before the `if`."""
        left, right = (self.states[side] for side in pair)
        if not self._mixing.join(value, pair):
            self._fail(
                value,
                f"the branches cannot join: {left} from {self.graph.site(pair[0])} and {right} "
                f"from {self.graph.site(pair[1])} are not one value that batch ops mix. Use only "
                "batch ops in the branches, and do everything else before the `if`",
            )
        self.states[value] = max(left, right, key=lambda state: state.bound)

    def _join(self, first: int, value: int, pair: tuple[int, int], inner: list[list[Step]]) -> Join:
        left, right = (self.states[side] for side in pair)
        try:
            state = join_states(left, right, listed=value in self._listed)
        except BuildError as error:
            self._fail(
                value,
                f"the branches cannot join: {left} from {self.graph.site(pair[0])} and {right} "
                f"from {self.graph.site(pair[1])}: {error.message}",
            )
        self.states[value] = state
        sides_of = self._size(pair[0]), self._size(pair[1])
        same = sides_of[0] == sides_of[1]
        self._sizes[value] = sides_of[0] if same else ("join", first, *sides_of)
        if not state.shape:
            self.registers.add(value)
        sides = [
            side
            if self._fits(side, state)
            else self._convert(side, state, inner[index], register=not state.shape)
            for index, side in enumerate(pair)
        ]
        return Join(value, sides[0], sides[1])

    def _fits(self, value: int, state: State) -> bool:
        own = self.states[value]
        if not state.shape:
            return value in self.registers and own.dtype == state.dtype
        return own.dtype == state.dtype and len(own.shape) == len(state.shape)

    def _convert(self, src: int, state: State, steps: list[Step], *, register: bool) -> int:
        """Append a copy of a value with the dtype and rank of a state; it keeps its own sides."""
        own, dst = self.states[src], self.new_value()
        extra = (1,) * (len(state.shape) - len(own.shape))
        self.states[dst] = State(
            state.kind, state.dtype, (*own.shape, *extra), (*own.bound, *extra)
        )
        self._sizes[dst] = self._size(src)
        if register:
            self.registers.add(dst)
        steps.append(ConvertStep(src, dst))
        return dst

    def _output(self, name: str, value: int) -> Output:
        state = self.states[value]
        if state.items:
            return Output(name, state.dtype, state.bound, state.kind, state.items)
        if not state.is_fixed:
            self._fail(
                value,
                f"output {name!r} is {state}, whose size differs from sample to sample, so its "
                f"rows cannot be stacked: fix its size with {FIXERS}, or {HINT}",
                output=name,
            )
        return Output(name, state.dtype, tuple(side for side in state.shape if side), state.kind)

    def _check(self, kind: str, what: str, value: int, field: str | None = None) -> int:
        self.checks.append(Check(kind, what, field, self.graph.site(value)))
        return len(self.checks)

    def _fail(self, value: int, message: str, **details: str) -> NoReturn:
        site = self.graph.site(value)
        raise BuildError(f"{site}: {message}", file=site.file, line=site.line, **details)

    def _within(self, value: int, what: str, body: Callable[[], T]) -> T:
        """Run a check of an op; its errors are prefixed with the user's line."""
        site = self.graph.site(value)
        try:
            return body()
        except StokerError as error:
            message = f"{site}: {what}: {error.message}"
            raise type(error)(
                message, **{"file": site.file, "line": site.line, **error.details}
            ) from None


def _argument_types(op: str, states: list[State]) -> list[str]:
    if op in ("height", "width"):
        if states[0].kind not in IMAGE_KINDS:
            raise BuildError(f"{op}: expected an image or mask, got {states[0]}")
        return [""]
    if op == "count":
        if not states[0].items:
            raise BuildError(f"count: expected boxes or keypoints, got {states[0]}")
        return [""]
    if op in STATISTICS:
        check_statistic(op, states[0])
        return ["float64" if states[0].dtype == "float32" else "int64"]
    for state in states:
        if state.shape:
            raise BuildError(
                f"expected scalars, got {state}: a condition or expression takes one number"
            )
    return [expressions.widened(np.dtype(state.dtype).name) for state in states]
