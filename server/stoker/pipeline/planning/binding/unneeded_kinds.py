"""Calls that no output needs: they never run, but a kind without a rule is still refused.

The normal form drops them. So a tracer records them next to the graph, with the calls that they
need, and binding walks that list with the states of the fields. Only the kind of each value is
checked. At a join we take the kind of the first branch; computed numbers are not checked.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.ops.bases.batch_op import BatchOp
from stoker.ops.contract.registry import lookup, make
from stoker.ops.contract.states import ITEM_KINDS, State, StateError
from stoker.pipeline.graph.nodes import Unneeded
from stoker.pipeline.planning.op_declarations import declared, declared_items
from stoker.protocol.errors import StokerError


def check_unneeded(calls: tuple[Unneeded, ...], fields: Mapping[str, State]) -> None:
    """Refuse a kind that an op has no rule for.

    Args:
        calls: the unneeded calls of a graph.
        fields: field name -> state; results made from a missing field are not checked.

    Raises:
        StateError: names the user's line, the op and the state.
        BuildError: an op cannot be imported.
        UnknownNameError: there is no op of that name.
    """
    made: list[State | None] = []
    for call in calls:
        sources = [
            made[of] if isinstance(of, int) else fields.get(of) if of is not None else None
            for of in call.of
        ]
        given = tuple(state for state in sources if state is not None)
        try:
            _check_kinds(call, given)
            made.append(_result(call, given) if len(given) == len(sources) else None)
        except StokerError as error:
            place = f"{call.file}:{call.line}"
            raise type(error)(
                f"{place}: {error.message}",
                **{"file": call.file, "line": call.line, **error.details},
            ) from None


def _check_kinds(call: Unneeded, given: tuple[State, ...]) -> None:
    cls = lookup(call.op, call.version)
    for state in given:
        if state.kind not in cls.kinds():
            error = cls.no_rule(state)
            raise StateError(f"{cls.name} on {state}: {error.message}", op=cls.name)


def _result(call: Unneeded, given: tuple[State, ...]) -> State:
    """Return the state of a call's result; of a refused call, the state of its input."""
    if call.params is None or issubclass(lookup(call.op, call.version), BatchOp):
        return given[0]
    op = make(call.op, call.params, call.version)
    try:
        if given[0].kind in ITEM_KINDS and not op.folds:
            return declared_items(op, given[0])
        return declared(op, given)[0]
    except StateError:
        return given[0]
