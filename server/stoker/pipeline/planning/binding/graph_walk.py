"""Binding: from nodes and field states to steps and the state of every value.

One walk over the normal form. `OpBinder` binds ops, `KnownSizes` compares sizes, `JoinBinder` binds
joins, `OutputBinder` binds outputs; they share one `BoundGraph`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from stoker.ops.contract.states import IMAGE_KINDS, State
from stoker.pipeline.graph import expressions
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import (
    Apply,
    ClassNumber,
    Const,
    Draw,
    Expr,
    Fact,
    If,
    Input,
    Node,
)
from stoker.pipeline.graph.normal import first_inside, number_nodes
from stoker.pipeline.planning.agreement.drifted_outputs import check_apart
from stoker.pipeline.planning.agreement.geometric_history import Histories
from stoker.pipeline.planning.agreement.mirrored_keypoints import MirroredKeypoints
from stoker.pipeline.planning.binding.expression_steps import ExpressionBinder, check_condition
from stoker.pipeline.planning.binding.joins import JoinBinder
from stoker.pipeline.planning.binding.known_sizes import KnownSizes
from stoker.pipeline.planning.binding.op_steps import OpBinder
from stoker.pipeline.planning.binding.output_steps import OutputBinder
from stoker.pipeline.planning.bound_graph import BoundGraph
from stoker.pipeline.planning.mixes import Mixes
from stoker.pipeline.planning.op_declarations import fault_of
from stoker.pipeline.planning.steps import (
    ContextStep,
    ExprStep,
    IfStep,
    InputStep,
    RecordStep,
    Step,
)
from stoker.protocol.errors import BuildError, UsageError
from stoker.protocol.item_fields import COUNT, DTYPES
from stoker.protocol.slot_layout import Output, check_outputs


def bind_graph(graph: Graph, states: Mapping[str, State]) -> BoundGraph:
    """Bind a graph in normal form to field states, and check that its outputs fit each other.

    Args:
        graph: the graph, as it was written.
        states: field name -> state.

    Raises:
        BuildError: see `stoker.pipeline.planning.planner.bind`.
    """
    binder = _Binder(BoundGraph(graph, states))
    bound = binder.bind()
    binder.histories.check(graph.outputs, graph.unlinked)
    check_apart(binder.histories, graph.outputs, graph.unlinked)
    binder.sides.check(graph.outputs, graph.unlinked)
    return bound


def walk_graph(graph: Graph, states: Mapping[str, State]) -> BoundGraph:
    """Bind a graph that computes the same as one that has been bound and checked.

    Whether outputs fit each other cannot be seen in it: its ops are others.
    """
    return _Binder(BoundGraph(graph, states)).bind()


_SHOWN: Final = 10


class _Binder:
    """The walk."""

    def __init__(self, bound: BoundGraph) -> None:
        self.bound = bound
        self.sizes = KnownSizes(bound)
        self.mixing = Mixes()
        self.ops = OpBinder(bound, self.sizes, self.mixing)
        self.joins = JoinBinder(bound, self.sizes, self.mixing, self.ops)
        self.delivery = OutputBinder(bound, self.mixing)
        self.histories = Histories(bound)
        self.sides = MirroredKeypoints(bound)
        self.expressions = ExpressionBinder(bound, self.sizes, self.ops, self.histories)

    def bind(self) -> BoundGraph:
        """Walk the graph.

        Raises:
            BuildError: see `stoker.pipeline.planning.planner.bind`.
        """
        steps: list[Step] = []
        delivered: list[int] = []
        read = {node.field for node in self.bound.graph.nodes if isinstance(node, Input)}
        for value, companions in self.ops.presence.of.items():
            for name in companions:
                if name not in read:
                    self._input(Input(name), self.bound.new_value(value), steps)
                    read.add(name)
        self._nodes(self.bound.graph.nodes, 0, steps)
        forms = {form.output: form for form in self.bound.graph.forms}
        for name, mixed in self.bound.graph.outputs:
            value = self.mixing.roots.get(mixed, mixed)
            if name in forms:
                self.delivery.form_fits(forms[name], mixed, value)
                self.delivery.store_sized(forms[name], value, steps)
                delivered += [mixed, mixed]
                continue
            self.delivery.store(self.delivery.output(name, value), value, steps)
            delivered.append(mixed)
            if self.bound.states[value].items:
                count = self.bound.new_value(value)
                self.bound.scalar(count, int)
                steps.append(ExprStep(count, "count", (value,), ("",)))
                self.delivery.store(Output(f"{name}.{COUNT}", "int64", (), "count"), count, steps)
                delivered.append(count)
        self.bound.mixes = self.mixing.collect(self.bound.outputs, delivered)
        try:
            check_outputs(tuple(self.bound.outputs))
        except UsageError as error:
            raise BuildError(error.message) from None
        self.ops.scaled.check(steps)
        self.bound.steps = (*self.ops.scaled.steps, *steps)
        return self.bound

    def _nodes(self, nodes: tuple[Node, ...], start: int, steps: list[Step]) -> None:
        for node, first in number_nodes(nodes, start)[0]:
            match node:
                case Input():
                    self._input(node, first, steps)
                case ClassNumber():
                    self.expressions.constant(first, self._class_number(node, first), steps)
                case Const():
                    self.expressions.constant(first, node.value, steps)
                case Fact():
                    self.bound.scalar(first, float if node.name == "progress" else int)
                    steps.append(ContextStep(first, node.name))
                case Draw():
                    self.ops.draw(node, first, steps)
                case Apply():
                    self.ops.apply(node, first, steps)
                    decision = self.ops.draws[node.draw]
                    self.histories.apply(decision, node.to, first)
                    self.sides.apply(decision, node.to, first)
                case Expr():
                    self._expr(node, first, steps)
                case If():
                    self._if(node, first, steps)

    def _input(self, node: Input, value: int, steps: list[Step]) -> None:
        if node.field not in self.bound.given:
            near = difflib.get_close_matches(node.field, self.bound.given, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            self.bound.fail(
                value,
                f"the dataset has no field {node.field!r}; {hint}it has: "
                f"{', '.join(sorted(self.bound.given)) or 'no fields'}",
                field=node.field,
            )
        state = self.bound.given[node.field]
        if state.dtype not in DTYPES:
            self.bound.fail(
                value,
                f"field {node.field!r} is {state}: its dtype is not supported; expected one of: "
                f"{', '.join(DTYPES)}",
                field=node.field,
            )
        fault = fault_of(state)
        if fault is not None:
            self.bound.fail(
                value,
                f"field {node.field!r}: the manifest says {state.kind} {state.dtype} of shape "
                f"{state.shape} with bound {state.bound}: {fault}; the dataset's manifest is "
                "damaged, pack it again",
                field=node.field,
            )
        check = self.bound.check("input", f"field {node.field!r} is {state}", value, node.field)
        steps.append(InputStep(value, len(self.bound.fields), check))
        self.bound.fields[node.field] = value
        self.bound.states[value] = state
        self.histories.begin(value, node.field, state)
        self.sides.begin(value, state)
        if state.kind in IMAGE_KINDS:
            self.sizes.of[value] = ("field", node.field)
        elif state.items:
            self.sizes.of[value] = ("field", state.of) if state.of else ("free", value)

    def _class_number(self, node: ClassNumber, value: int) -> int:
        state = self.bound.given.get(node.field)
        classes = () if state is None else state.classes
        if node.name not in classes:
            self.bound.fail(value, _no_class(node, classes), field=node.field)
        return classes.index(node.name)

    def _expr(self, node: Expr, value: int, steps: list[Step]) -> None:
        if node.op == "record":
            self._record(node, value, steps)
        else:
            self.expressions.bind(node, value, steps)

    def _record(self, node: Expr, value: int, steps: list[Step]) -> None:
        decision = self.ops.draws[node.args[0]]
        record = decision.op.record
        if node.name not in (record.names or ()) or record[node.name].shape:
            self.bound.fail(
                value,
                f"a decision of {decision.op.name} has no number {node.name!r}; it has: "
                f"{', '.join(n for n in record.names or () if not record[n].shape)}",
                op=decision.op.name,
            )
        kind = self.bound.within(
            value, node.name, lambda: expressions.widened(str(record[node.name]))
        )
        self.bound.scalar(value, kind)
        steps.append(RecordStep(value, decision, node.name, kind))

    def _if(self, node: If, first: int, steps: list[Step]) -> None:
        cond = self.bound.states[node.cond]
        self.bound.within(first, "if", lambda: check_condition(cond))
        inner: list[list[Step]] = []
        for block, start in zip((node.then, node.orelse), first_inside(node, first), strict=True):
            inner.append([])
            with self.sizes.branch():
                self._nodes(block.nodes, start, inner[-1])
        joins = []
        for index, pair in enumerate(zip(node.then.results, node.orelse.results, strict=True)):
            if self.mixing.roots.keys().isdisjoint(pair):
                joins.append(self.joins.join(first, first + index, pair, inner))
            else:
                self.joins.join_mixed(first + index, pair)
            self.histories.join(node.cond, first + index, pair)
            self.sides.join(first + index, pair)
        steps.append(IfStep(node.cond, tuple(inner[0]), tuple(inner[1]), tuple(joins)))


def _no_class(node: ClassNumber, classes: tuple[str, ...]) -> str:
    what = f"{node.field} == {node.name!r}"
    if not classes:
        return (
            f"{what}: the field {node.field!r} has no names of classes: compare it with a number, "
            f'pack it with classes, or in process pass classes={{"{node.field}": [...]}}'
        )
    near = difflib.get_close_matches(node.name, classes, 1, 0.5)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    shown = ", ".join(classes[:_SHOWN]) + ", ..." * (len(classes) > _SHOWN)
    return f"{what}: there is no such class{hint} The classes of {node.field!r} are {shown}"
