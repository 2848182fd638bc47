"""Tracing: runs the user's function once with placeholders for values, and records what it does.

A `TracedValue` knows its number in the graph under construction. Ops that are called on it append
a draw (the decision) and an apply for each value; arithmetic and comparisons append expressions.
One table of decisions does all the synchronizing: a call whose (stream name, op, version,
parameters) is already in it, in this block or an enclosing one, follows the existing decision. A
joint call, the same instance used twice and the same `stream=` all become applies of one draw.

Stream names are in `tracing.naming`. Runs in the author's process, on one thread for each trace.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from stoker.ops.bases.row_parameters import row_value, why_constant
from stoker.ops.contract.numbers import settled
from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.registry import name_of
from stoker.pipeline.graph.frame_sampling import FrameSampling
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import (
    ELEMENT,
    MAX_DEPTH,
    MAX_INT,
    MAX_NAME,
    MAX_TRACED,
    MIN_INT,
    STATISTICS,
    Apply,
    Block,
    ClassNumber,
    Const,
    Draw,
    Expr,
    Fact,
    Form,
    If,
    Input,
    Node,
    Varying,
    deciding,
)
from stoker.pipeline.graph.normal import normalize, renumber
from stoker.pipeline.graph.schedule import OF_BUCKET, not_a_schedule
from stoker.pipeline.graph.sites import Site, user_site
from stoker.pipeline.tracing.decided import Decided, OpCall
from stoker.pipeline.tracing.naming import Names, views_are_shared
from stoker.pipeline.tracing.scheduled_values import ScheduledValues
from stoker.pipeline.tracing.shared_streams import Sharing
from stoker.pipeline.tracing.unneeded_calls import unneeded_calls
from stoker.pipeline.tracing.value_refusals import fault
from stoker.pipeline.tracing.values import TracedValue, Unusable, not_a_value
from stoker.protocol.canonical import canonical_bytes

T = TypeVar("T")
CONTEXT: Final = ("epoch", "view", "step", "progress", "id", *OF_BUCKET)

Written = tuple[Node, int]
"""A node and the number of its first value, in the order of tracing."""


class _Open(NamedTuple):
    """A block being traced: its nodes, the decisions made in it, and its number."""

    written: list[Written]
    decisions: dict[tuple[str, ...], int]
    id: int


def is_linked(value: object) -> bool:
    """Return whether a value lacks the mark of `ops.unlinked`; numbers lack it."""
    return getattr(value, "linked", True) is True


class GraphTracer:
    """The graph under construction; one for each run of a pipeline function."""

    def __init__(self) -> None:
        self._next = 0
        self._inputs: list[Written] = []
        self._ids = itertools.count()
        self._open = [_Open([], {}, next(self._ids))]
        self._merged: dict[int, int] = {}
        self._written_inside: dict[int, tuple[list[Written], list[Written]]] = {}
        self._names = Names()
        self._sharing = Sharing()
        self._fields: dict[str, TracedValue] = {}
        self._sites: dict[int, Site] = {}
        self._scheduled = ScheduledValues()
        self._decided = Decided()
        self._block_of: dict[int, int] = {}
        self._made_for: dict[int, int] = {}
        self.clip: FrameSampling | None = None  # set by sample_frames

    def input(self, name: str) -> TracedValue:
        """Return the value of a field; reading a field twice gives the same value."""
        if name not in self._fields:
            node: Node = Input(name)
            if name.startswith("stoker."):
                if name.removeprefix("stoker.") not in CONTEXT:
                    raise fault(f"{name!r}: there are {', '.join(f'stoker.{c}' for c in CONTEXT)}")
                node = Fact(name.removeprefix("stoker."))  # type: ignore[arg-type]
            number = self._number(node)
            self._inputs.append((node, number))
            self._fields[name] = TracedValue(self, number, f"field {name!r}")
            self._fields[name].block = self._open[0].id
        return self._fields[name]

    def apply(
        self,
        op: Op,
        values: Sequence[Value],
        stream: str | None,
        default: str | None = None,
        *,
        relative: bool = False,
    ) -> tuple[Value, ...]:
        """Append a call of an op: its decision, unless it exists already, and an apply per value.

        A fold is one apply of all values. `default` is the default stream name; None: the op's.
        `relative` matters for values other than the one that the decision is made for.
        """
        if not isinstance(relative, bool):
            raise fault(f"{op.name}: expected relative to be True or False, got {relative!r}")
        numbers = tuple(self.number_of(value, op.name) for value in values)
        looked_at = numbers if op.draws_from else numbers[:1]
        draw = self._decide(op, looked_at, stream, default or op.default_stream or op.name)
        if op.folds:
            applied = [self._append(Apply(draw, numbers, 1, relative))]
        else:
            first = self._made_for.setdefault(draw, numbers[0])
            applied = [
                self._append(Apply(draw, (number,), 1, relative and number != first))
                for number in numbers
            ]
        self._decided.note(OpCall(op, draw, self._block_of[draw]), applied)
        if relative and not op.folds:
            pairs = zip(applied, numbers, strict=True)
            self._decided.note_scaled(result for result, number in pairs if number != first)
        linked = [is_linked(value) for value in values]
        marks = [all(linked)] if op.folds else linked
        return tuple(
            TracedValue(self, value, f"the result of {op.name}", linked=mark)
            for value, mark in zip(applied, marks, strict=True)
        )

    def made_by(self, result: Value) -> Op | None:
        """Return the op that a value is a result of; None for all other values."""
        return self._decided.op_of(self.number_of(result, "an op"))

    def unlink(self, value: Value) -> TracedValue:
        """Return the value with the mark of `ops.unlinked`."""
        number = self.number_of(value, "unlinked")
        return TracedValue(self, number, getattr(value, "what", "a number"), linked=False)

    def decided(self, result: Value, field: str) -> TracedValue:
        """Append the reading of a number of the record that a result of `apply` was made with.

        Raises:
            BuildError: the value is not the result of an op.
        """
        call = self._decided.number(self.number_of(result, field), field)
        return self._record(call, field, f"its {field}")

    def applied(self, op: Op) -> TracedValue:
        """Append whether the decision of an instance's last call changes its values; see `Op`.

        Raises:
            BuildError: there was no call, only one in a branch that has ended, or the op has no
                switch.
        """
        call, switch = self._decided.switch(op)
        return self.expr("ne", self._record(call, switch, f"{op.name}.applied"), 0)

    def _record(self, call: OpCall, name: str, what: str) -> TracedValue:
        """Append the reading of a number of a draw."""
        draw = TracedValue(self, call.draw, what, block=call.block)
        self.check_visible(draw, what)
        return TracedValue(self, self._append(Expr("record", (call.draw,), name)), what)

    def stream_of(self, op: Op) -> str | None:
        """Return the stream name of an instance's first call; None if it draws nothing."""
        return self._names.of(op)

    def choose(self, op: Op, field: str, stream: str | None, default: str) -> TracedValue:
        """Append a decision that reads no value, and return a number of its record.

        Args:
            op: an op without kernels.
            field: the number of its record.
            stream: stream name; None for `default`, prefixed by open scopes.
            default: the default stream name.
        """
        draw = self._decide(op, (), stream, default)
        return TracedValue(self, self._append(Expr("record", (draw,), field)), f"{default}'s draw")

    def expr(self, op: str, *args: object, name: str = "") -> TracedValue:
        """Append an expression over values and Python numbers; see `Expr` for `name`."""
        numbers = tuple(self._operand(op, arg, args) for arg in args)
        return TracedValue(self, self._append(Expr(op, numbers, name)), f"the result of {op!r}")

    def _operand(self, op: str, arg: object, args: Sequence[object]) -> int:
        """Return the number of an operand; a text that a field is compared with is a class."""
        if isinstance(arg, str) and op in ("eq", "ne") and 0 < len(arg) <= MAX_NAME:
            for name, field in self._fields.items():
                if any(isinstance(one, TracedValue) and one.number == field.number for one in args):
                    return self._append(ClassNumber(name, arg))
        return self.number_of(arg, op)

    def number_of(self, value: object, where: str) -> int:
        """Return the number of a value; a Python or NumPy number becomes a constant.

        Raises:
            BuildError: it is neither, or belongs to another pipeline.
        """
        if isinstance(value, TracedValue):
            if value.tracer is not self:
                raise fault(
                    f"{where}: {value.what} belongs to another pipeline; read it from `sample`"
                )
            self.check_visible(value, where)
            return value.number
        if isinstance(value, Unusable):
            value.refuse()
        value = settled(value)
        if isinstance(value, bool | int | float):
            finite = (
                math.isfinite(value) if isinstance(value, float) else MIN_INT <= value <= MAX_INT
            )
            if not finite:
                raise fault(f"{where}: expected a finite number of 64 bits, got {value!r}")
            return self._append(Const(value))
        raise not_a_value(where, value)

    def check_visible(self, value: TracedValue, where: str, site: Site | None = None) -> None:
        """Refuse a value that was made inside a branch that has ended.

        Raises:
            BuildError: names the value and the remedy.
        """
        made_in = value.block
        while made_in in self._merged:
            made_in = self._merged[made_in]
        if all(block.id != made_in for block in self._open):
            raise fault(
                f"{where}: {value.what} was made inside a branch of an `if` and does not exist "
                "outside of it: assign it to a variable in both branches and use that",
                site,
            )

    def branch(
        self,
        cond: object,
        then: Callable[[], T],
        orelse: Callable[[], T],
        pair: Callable[[T, T], list[tuple[object, object]]],
    ) -> list[TracedValue]:
        """Append a choice: trace both functions, each into its block, and join the pairs of `pair`.

        Args:
            cond: the condition.
            then: traced into the first block.
            orelse: traced into the other.
            pair: receives both return values, returns the values to join, one pair per result.

        Returns:
            The results of the `if`, one for each pair.
        """
        condition = self.number_of(cond, "if")
        if len(self._open) > MAX_DEPTH:
            raise fault(
                f"`if`s on values of a sample are nested deeper than {MAX_DEPTH}. Both branches "
                "are traced, so a function that calls itself until such a condition holds never "
                "ends: loop over a Python range instead"
            )
        opened = [_Open([], {}, next(self._ids)) for _ in range(2)]
        self._sharing.exclude(opened[0].id, opened[1].id)
        with self._inside(opened[0]):
            left = then()
        with self._inside(opened[1]):
            right = orelse()
        pairs = pair(left, right)
        blocks = []
        for side, block in enumerate(opened):
            with self._inside(block):
                results = tuple(self.number_of(values[side], "if") for values in pairs)
            blocks.append(Block((), results))
        node = If(condition, *blocks)
        first = self._append(node)
        self._written_inside[first] = (opened[0].written, opened[1].written)
        return [
            TracedValue(
                self, first + index, "the result of an `if`", linked=all(map(is_linked, sides))
            )
            for index, sides in enumerate(pairs)
        ]

    def also(self, left: TracedValue, right: Callable[[], object], *, ends: bool) -> TracedValue:
        """Append `left and right()`, or `left or right()`.

        Both sides are computed, unless the right one reads elements or computes an array. That may
        be impossible where the left side decides, as in `len(x) > 0 and x[0] > 3`, so it becomes a
        choice.

        Args:
            left: the first side.
            right: traces the other one.
            ends: the truth of the left side that decides: False for `and`, True for `or`.
        """
        opened = _Open([], {}, next(self._ids))
        with self._inside(opened):
            other = right()
        if not self._may_fail(opened.written):
            self._open[-1].written.extend(opened.written)
            self._open[-1].decisions.update(opened.decisions)
            self._merged[opened.id] = self._open[-1].id
            return self.expr("or" if ends else "and", left, other)
        decided = _Open([], {}, next(self._ids))
        with self._inside(opened):
            truth = Block((), (self.number_of(self.expr("and", other, True), "and"),))
        with self._inside(decided):
            known = Block((), (self.number_of(ends, "and"),))
        condition = self.number_of(left, "if")
        pairs = [(truth, opened.written), (known, decided.written)]
        then, orelse = reversed(pairs) if ends else pairs
        first = self._append(If(condition, then[0], orelse[0]))
        self._written_inside[first] = (then[1], orelse[1])
        return TracedValue(self, first, f"the result of {'or' if ends else 'and'!r}")

    def _may_fail(self, written: list[Written]) -> bool:
        """Return whether nodes, or nodes in their blocks, make a sample bad that does not fit them.

        An element may be out of bounds; two arrays may differ in shape, and a number may not fit an
        array, whose one number is a statistic then.
        """
        made = {
            first
            for node, first in written
            if isinstance(node, Expr) and node.op not in (ELEMENT, *STATISTICS)
        }
        return any(
            (
                isinstance(node, Expr)
                and (node.op == ELEMENT or (node.op in STATISTICS and node.args[0] in made))
            )
            or any(map(self._may_fail, self._written_inside.get(first, ())))
            for node, first in written
        )

    def graph(self, outputs: dict[str, TracedValue], forms: tuple[Form, ...] = ()) -> Graph:
        """Return the normal form of the traced graph."""
        env: dict[int, int] = {}
        nodes = self._in_order([*self._inputs, *self._open[0].written], env, [0])
        given = tuple((name, env[value.number]) for name, value in outputs.items())
        sites = tuple((env[number], *site) for number, site in self._sites.items())
        unlinked = tuple(sorted(name for name, value in outputs.items() if not value.linked))
        traced = Graph(nodes=nodes, outputs=given, forms=forms, sites=sites, unlinked=unlinked)
        traced = msgspec.structs.replace(traced, clip=self.clip)
        return msgspec.structs.replace(normalize(traced), unneeded=unneeded_calls(traced))

    def _in_order(
        self, written: list[Written], env: dict[int, int], following: list[int]
    ) -> tuple[Node, ...]:
        """Number values as the format does, in the order of the nodes; fields come first."""
        nodes: list[Node] = []
        for node, first in written:
            if isinstance(node, If):
                blocks = []
                for inner, block in zip(
                    self._written_inside[first], (node.then, node.orelse), strict=True
                ):
                    inside = self._in_order(inner, env, following)
                    blocks.append(Block(inside, tuple(env[value] for value in block.results)))
                nodes.append(If(env[node.cond], *blocks))
            else:
                nodes.append(renumber(node, env, 0))
            for value in range(first, first + node.width):
                env[value] = following[0]
                following[0] += 1
        return tuple(nodes)

    @contextlib.contextmanager
    def _inside(self, block: _Open) -> Iterator[None]:
        self._open.append(block)
        try:
            yield
        finally:
            self._open.pop()

    @property
    def block(self) -> int:
        """Number of the block being traced; 0 outside of every `if`."""
        return self._open[-1].id

    def _decide(self, op: Op, of: tuple[int, ...], stream: str | None, default: str) -> int:
        name = self._names.name(op, stream, default)
        params, varies = self._parameters(op)
        draw = Draw(name_of(op), op.version, dict(params), name, of, varies, views_are_shared())
        if name is None:
            return self._append(draw)
        blocks = tuple(block.id for block in self._open)
        schedules = [[param, place, self._scheduled.formula(at)] for param, place, at in varies]
        mine = deciding(draw.op, params, op.result_number)
        self._sharing.check(draw.op, name, mine, schedules, blocks)
        said: Any = {"params": params, "varies": varies, "shared": draw.shared}
        key = (name, draw.op, str(op.version), canonical_bytes(said).decode())
        for block in reversed(self._open):
            if key in block.decisions:
                return block.decisions[key]
        self._open[-1].decisions[key] = number = self._append(draw)
        return number

    def _parameters(self, op: Op) -> tuple[dict[str, Any], tuple[Varying, ...]]:
        """Return an op's parameters as data, and which of them follow a schedule or the row."""
        params = dict(op.params_data())
        varies: list[Varying] = []
        for name, place, value in op.varying():
            number = self.number_of(value, f"{op.name}: parameter {name!r}")
            alone = place is None and row_value(type(op), name) is not None
            if number not in self._scheduled and not alone:
                raise fault(not_a_schedule(op.name, name, why_constant(type(op), name)), op=op.name)
            given = params[name]
            params[name] = None
            if place is not None and isinstance(given, list | tuple):
                params[name] = [None if at == place else part for at, part in enumerate(given)]
            varies.append((name, place, number))
        return params, tuple(varies)

    def _append(self, node: Node) -> int:
        self._open[-1].written.append((node, first := self._number(node)))
        return first

    def _number(self, node: Node) -> int:
        first = self._next
        self._next += node.width
        if self._next > MAX_TRACED:
            raise fault(
                f"the pipeline has more than {MAX_TRACED} steps: it describes one sample, so check "
                "whether a Python loop is too long"
            )
        self._scheduled.note(node, first)
        if isinstance(node, Draw):
            self._block_of[first] = self.block
        self._sites.update(dict.fromkeys(range(first, self._next), user_site()))
        return first
