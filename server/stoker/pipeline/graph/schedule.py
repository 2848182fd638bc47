"""Schedules: op parameters that follow the place in the stream.

A parameter may be an expression of constants and of the context's epoch, step and progress. All
rows of a chunk are in one step, so such a parameter is one number for the whole chunk: it is
computed in Python with the arithmetic of `graph.expressions`, the op is constructed again with it
(so its own check runs), and its parameters are passed to the compiled code like all others. A row's
parameters depend on its place only: nothing is counted, so a resume changes nothing.

A formula is a flat list, so long ones need no deep stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from stoker.pipeline.graph import expressions
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import ELEMENT, STATISTICS, Const, Draw, Expr, Fact, If, Node
from stoker.pipeline.graph.normal import first_inside, number_nodes

FACTS: Final = ("epoch", "step", "progress")
OF_BUCKET: Final = ("bucket_height", "bucket_width", "bucket_length")
"""Facts that are the same for all rows of a bucket; a plan is bound to one, so it knows them."""
OF_VALUES: Final = ("record", "height", "width", "count", "side", ELEMENT, *STATISTICS)
"""Expressions that read a sample's values or a draw."""
_TYPES: Final = {"bool": bool, "int64": int, "float64": float}


class Moment(NamedTuple):
    """A place in a stream, as schedules see it.

    Attributes:
        epoch: epoch, from 0.
        step: step in the epoch, from 0; None if there is no stream.
        progress: how much of the training is over, in [0, 1]; None if its length is unknown.
    """

    epoch: int
    step: int | None = None
    progress: float | None = None


FIRST: Final = Moment(0, 0, 0.0)


class Entry(NamedTuple):
    """One number of a formula: a constant, a fact, an expression, or a choice of two."""

    value: int
    op: str
    args: tuple[int, ...]
    type: str
    constant: Any = None


@dataclass(frozen=True, eq=False)
class Schedule:
    """Parameters of one op over time.

    Attributes:
        params: the op's parameters, None in place of a number that is computed.
        varies: (parameter, index in it or None, value number).
        entries: what to compute, in order.
    """

    params: Mapping[str, Any]
    varies: tuple[tuple[str, int | None, int], ...]
    entries: tuple[Entry, ...]

    @property
    def facts(self) -> frozenset[str]:
        """Names of the facts that the schedule reads."""
        return frozenset(entry.op for entry in self.entries if entry.op in FACTS)

    def at(self, moment: Moment) -> dict[str, Any]:
        """Return the parameters at a place in the stream, which must have every fact it reads."""
        env: dict[int, Any] = {}
        types: dict[int, str] = {}
        for entry in self.entries:
            env[entry.value] = _evaluate(entry, env, types, moment)
            types[entry.value] = entry.type
        made = {name: list(v) if isinstance(v, tuple) else v for name, v in self.params.items()}
        for name, place, value in self.varies:
            if place is None:
                made[name] = env[value]
            else:
                made[name] = list(made[name])
                made[name][place] = env[value]
        return made


class Formulas:
    """The numbers of a graph that depend on the place in the stream only."""

    def __init__(self, graph: Graph) -> None:
        self._entries: dict[int, Entry] = {}
        self._collect(graph.nodes, 0)

    def follows(self, value: int) -> bool:
        """Return whether a value depends on the place in the stream only."""
        return value in self._entries

    def schedule(self, node: Draw) -> Schedule | None:
        """Return the schedule of an op's parameters; None if none of them follows one."""
        varies = tuple(one for one in node.varies if self.follows(one[2]))
        if not varies:
            return None
        return Schedule(node.params, varies, self._needed([value for _, _, value in varies]))

    def _needed(self, pending: list[int]) -> tuple[Entry, ...]:
        needed: set[int] = set()
        while pending:
            value = pending.pop()
            if value not in needed:
                needed.add(value)
                pending += self._entries[value].args
        return tuple(self._entries[value] for value in sorted(needed))

    def _collect(self, nodes: tuple[Node, ...], start: int) -> None:
        for node, first in number_nodes(nodes, start)[0]:
            if isinstance(node, If):
                inner = first_inside(node, first)
                for block, begin in zip((node.then, node.orelse), inner, strict=True):
                    self._collect(block.nodes, begin)
                for index, pair in enumerate(
                    zip(node.then.results, node.orelse.results, strict=True)
                ):
                    self._add(first + index, "choose", (node.cond, *pair))
            elif isinstance(node, Const):
                kind = expressions.type_of(node.value)
                self._entries[first] = Entry(first, "const", (), kind, node.value)
            elif isinstance(node, Fact) and node.name in FACTS:
                kind = "float64" if node.name == "progress" else "int64"
                self._entries[first] = Entry(first, node.name, (), kind)
            elif isinstance(node, Expr) and node.op not in OF_VALUES:
                self._add(first, node.op, node.args)

    def _add(self, value: int, op: str, args: tuple[int, ...]) -> None:
        if not all(arg in self._entries for arg in args):
            return
        types = [self._entries[arg].type for arg in args]
        if op == "choose":
            kind = max(types[1:], key=list(_TYPES).index)
        else:
            kind = expressions.result_type(op, types)
        self._entries[value] = Entry(value, op, args, kind)


def _evaluate(entry: Entry, env: dict[int, Any], types: dict[int, str], moment: Moment) -> Any:
    if entry.op == "const":
        return entry.constant
    if entry.op in FACTS:
        return getattr(moment, entry.op)
    values = [env[arg] for arg in entry.args]
    if entry.op == "choose":
        return _TYPES[entry.type](values[1] if values[0] != 0 else values[2])
    return expressions.evaluate(entry.op, values, [types[arg] for arg in entry.args])


def facts_read(graph: Graph) -> frozenset[str]:
    """Return which of id, epoch, view, step and progress a pipeline reads anywhere."""
    return frozenset(node.name for node in graph.nodes if isinstance(node, Fact))


def not_a_schedule(op: str, name: str, why: str) -> str:
    """Return the message for a parameter that may not differ from sample to sample."""
    return (
        f"{op}: parameter {name!r} differs from sample to sample; expected numbers, ctx.epoch, "
        f"ctx.step, ctx.progress and the bucket's size: {why}. Let the op draw the parameter from "
        "a range, or choose between two calls of the op with an `if`"
    )
