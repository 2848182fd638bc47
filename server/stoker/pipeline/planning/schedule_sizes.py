"""Checks that a schedule's parameters keep the sizes and the memory of the plan.

An op whose parameters follow the place in the stream is constructed again at each place. When a
plan is made, the length of the training is not known, so some places are tried: first ones, and
ever later ones. An engine checks every place again that it comes to.
"""

from __future__ import annotations

from typing import Final

from stoker.ops.contract.op import Op
from stoker.ops.contract.registry import make, name_of
from stoker.ops.contract.states import State
from stoker.pipeline.graph.schedule import Moment
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.op_declarations import declared
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.row_parameters import trials
from stoker.pipeline.planning.steps import KernelStep, walk
from stoker.protocol.errors import BuildError, StokerError

LATE: Final = (0, 1, 2, 3, 5, 10, 20, 50, 100, 300, 1000)
TRIED: Final = tuple(Moment(at, at, n / (len(LATE) - 1)) for n, at in enumerate(LATE))
"""Places in a training of unknown length."""


def check_sizes(plan: Plan) -> None:
    """Refuse schedules that change a size or the memory of an op at one of the places tried.

    Values that an op refuses there are no fault: a training may be over before.

    Raises:
        BuildError: names the user's line, the states and the remedy.
    """
    for decision in plan.decisions:
        for place in TRIED if decision.schedule is not None else ():
            try:
                op = op_at(decision, place)
            except StokerError:
                continue
            try:
                check_states(plan, decision, op)
            except StokerError as error:
                site = decision.site
                raise BuildError(
                    f"{site}: {op.name}: {error.message}",
                    op=op.name,
                    file=site.file,
                    line=site.line,
                ) from None


def op_at(decision: Decision, place: Moment) -> Op:
    """Return the op of a decision that follows a schedule, as it is at a place.

    Raises:
        StokerError: the op refuses its parameters there.
    """
    assert decision.schedule is not None, "other decisions have one op"
    return make(name_of(decision.op), decision.schedule.at(place), decision.op.version)


def check_states(plan: Plan, decision: Decision, op: Op) -> None:
    """Refuse an op that declares other states, or more memory, than those of the plan.

    Raises:
        BuildError: names what was expected and what came.
    """
    for step, _ in walk(plan.steps):
        if isinstance(step, KernelStep) and step.decision.index == decision.index:
            given, planned = tuple(plan.states[src] for src in step.reads), plan.states[step.dst]
            for tried in (op, *trials(op, decision.row_parameters)):
                state, scratch = declared(tried, given)
                if _form(state) != _form(planned) or scratch > step.scratch_bytes:
                    raise BuildError(
                        "a parameter that decides the size or the memory of an op cannot follow a "
                        f"schedule: expected {planned} with {step.scratch_bytes} bytes of scratch, "
                        f"got {state} with {scratch} from {op.name}. Give it a constant, or choose "
                        "between two calls with an `if` whose results have one size"
                    )


def _form(state: State) -> tuple[object, ...]:
    """Return what an op itself declares of a result."""
    return state.kind, state.dtype, state.shape, state.bound
