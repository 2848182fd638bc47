"""Parameters of ops that are values of each row: a field, a draw, or arithmetic on these.

A graph names them in `Draw.varies`, next to those that follow a schedule. Each row writes the
number into the op's run-time parameters before the op decides, if it is within the bounds that the
op declares; otherwise the sample is bad. A plan is laid out before the first row, so the number may
not decide a size: the op is tried with numbers over the whole range, and gets the memory that it
needs at the ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from stoker.ops.bases.row_parameters import RowValue, row_value, why_constant
from stoker.ops.contract.op import Op
from stoker.ops.contract.registry import lookup, make, name_of
from stoker.ops.contract.states import State
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import Apply, Draw, Expr, If, Input, Node, Varying, draws_of
from stoker.pipeline.graph.normal import first_inside, number_nodes
from stoker.pipeline.graph.schedule import Formulas, not_a_schedule
from stoker.pipeline.planning.op_declarations import declared
from stoker.pipeline.planning.value_scales import scaled
from stoker.protocol.errors import BuildError, StokerError

TRIED: Final = (0.0, 1.0, 0.5, 0.13, 0.29, 0.71, 0.88)
"""Parts of a range: a size that depends on the number, such as by an angle, differs among them."""
PRESENT: Final = "_present"
"""End of the name of the field that says whether a sample has an optional field."""


@dataclass(frozen=True)
class RowParameter:
    """A parameter of a decision that each row writes.

    Attributes:
        name: of the parameter.
        value: the scalar that it takes.
        rule: its bounds, and the run-time fields that hold it.
    """

    name: str
    value: int
    rule: RowValue


def row_parameters(node: Draw, formulas: Formulas) -> tuple[RowParameter, ...]:
    """Return the parameters of a draw that are values of each row.

    Raises:
        BuildError: the op takes no such value for a parameter.
    """
    return tuple(
        RowParameter(name, value, _rule(node, name, place))
        for name, place, value in of_rows(node, formulas)
    )


def of_rows(node: Draw, formulas: Formulas) -> tuple[Varying, ...]:
    """Return those of a draw's varying parameters that follow no schedule."""
    return tuple(one for one in node.varies if not formulas.follows(one[2]))


def _rule(node: Draw, name: str, place: int | None) -> RowValue:
    op = lookup(node.op, node.version)
    rule = row_value(op, name)
    if rule is None or place is not None:
        raise BuildError(not_a_schedule(node.op, name, why_constant(op, name)))
    return rule


def settled(node: Draw, parameters: tuple[RowParameter, ...]) -> Draw:
    """Return a draw with numbers in place of its parameters of rows."""
    given = {one.name: one.rule.given(one.rule.middle) for one in parameters}
    names = given.keys()
    varies = tuple(one for one in node.varies if one[0] not in names)
    return replace(node, params=node.params | given, varies=varies)


def trials(op: Op, parameters: tuple[RowParameter, ...]) -> Iterator[Op]:
    """Yield an op with numbers over the range of each parameter of rows, and at all ends at once.

    Those of a parameter come together; its ends come first. The others have what the op has.
    """
    params = op.params_data()
    for one in parameters:
        for part in TRIED:
            yield _tried(op, params, {one: part})
    if len(parameters) > 1:
        for ends in itertools.product(TRIED[:2], repeat=len(parameters)):
            yield _tried(op, params, dict(zip(parameters, ends, strict=True)))


def _tried(op: Op, params: Mapping[str, Any], parts: Mapping[RowParameter, float]) -> Op:
    given = {}
    for one, part in parts.items():
        low, high = one.rule.low, one.rule.high
        given[one.name] = one.rule.given(min(max(low * (1 - part) + high * part, low), high))
    return make(name_of(op), {**params, **given}, op.version)


def check_trials(
    op: Op, parameters: tuple[RowParameter, ...], given: tuple[State, ...], state: State
) -> int:
    """Return the scratch bytes that an op needs for every number of its parameters of rows.

    It is that of the greatest need at the ends of the ranges: scratch has no peak between them.

    Args:
        op: the op.
        parameters: its parameters of rows.
        given: states that it is applied to.
        state: of the result.

    Raises:
        BuildError: a parameter decides the size, the kind or the dtype of the result.
    """
    needs: list[int] = []
    for trial in trials(op, parameters):
        try:
            made, scratch = declared(trial, given)
            made = scaled(trial, given[0], made)
        except StokerError as error:
            raise BuildError(f"{_names(parameters)} {_CONSTANT}: {error.message}") from None
        if made != state:
            raise BuildError(
                f"{_names(parameters)} {_CONSTANT}: it decides the size or the scale of the "
                f"result, {state} or {made}, and memory is laid out before the first row"
            )
        needs.append(scratch)
    for one, at in zip(parameters, itertools.count(0, len(TRIED)), strict=False):
        alone = needs[at : at + len(TRIED)]
        if max(alone) > max(alone[:2]):
            raise BuildError(f"{_names((one,))} {_CONSTANT}: it decides the memory of the op")
    return max(needs)


_CONSTANT = "must be a constant"


def _names(parameters: tuple[RowParameter, ...]) -> str:
    return " and ".join(f"parameter {one.name!r}" for one in parameters)


class Presence:
    """The optional fields that parameters of rows are made of.

    Attributes:
        of: value -> names of the fields that say whether a sample has what it is made of.
    """

    def __init__(self, graph: Graph, given: Mapping[str, State], formulas: Formulas) -> None:
        self._made: dict[int, tuple[Node, int]] = {}
        self._given = given
        self._collect(graph.nodes, 0)
        values = {one[2] for draw in draws_of(graph.nodes) for one in of_rows(draw, formulas)}
        self.of = {value: self._companions(value) for value in sorted(values)}

    def _collect(self, nodes: tuple[Node, ...], start: int) -> None:
        for node, first in number_nodes(nodes, start)[0]:
            self._made |= {first + index: (node, index) for index in range(node.width)}
            if isinstance(node, If):
                starts = first_inside(node, first)
                for block, begin in zip((node.then, node.orelse), starts, strict=True):
                    self._collect(block.nodes, begin)

    def _companions(self, value: int) -> tuple[str, ...]:
        """Return the companions of the fields that a value is computed from, unless it reads them.

        A value of an `if` is computed from its condition and from both branches.
        """
        read: set[str] = set()
        pending, seen = [value], {value}
        while pending:
            before: tuple[int, ...] = ()
            match self._made.get(pending.pop()):
                case (Input(field=field), _):
                    read.add(field)
                case (Expr() as node, _) if node.op != "record":
                    before = tuple(node.args)
                case (If() as node, index):
                    results = (block.results[index] for block in (node.then, node.orelse))
                    before = (node.cond, *results)
                case (Apply() as node, index):
                    before = node.made_of(index)
            pending += [number for number in before if number not in seen]
            seen.update(before)
        names = (f"{name}{PRESENT}" for name in sorted(read))
        return tuple(name for name in names if name in self._given and name not in read)
