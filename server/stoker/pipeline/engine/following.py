"""Makes an engine follow a schedule: sets the parameters when the row's place changes.

All rows of a chunk have one place, so this happens once per chunk. An op that a schedule constructs
again must declare what the plan was laid out for: a parameter that decides sizes or memory cannot
follow a schedule. Belongs to one engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from stoker.ops.contract.op import Op
from stoker.pipeline.graph.schedule import FACTS, Moment, facts_read
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.op_declarations import params_of
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.schedule_sizes import check_states, op_at
from stoker.protocol.errors import BuildError, StokerError, UsageError
from stoker.rng.row import Row


class Follower:
    """Sets parameters, and the facts that conditions read, for rows of one place at a time.

    Attributes:
        active: whether anything in the plan follows the place in the stream.
    """

    def __init__(self, plan: Plan, params: np.ndarray) -> None:
        """Prepare.

        Args:
            plan: the plan.
            params: the engine's parameter table, see `tables.params_table`.
        """
        self._plan = plan
        self._params = params
        self._reads = sorted(facts_read(plan.graph).intersection(FACTS))
        self._place: Moment | None = None
        self.active = bool(self._reads)

    def follow(self, row: Row) -> bool:
        """Set everything for a row's place; return whether the place changed.

        Raises:
            UsageError: the row lacks a fact that the pipeline reads.
            BuildError: an op refuses its parameters there.
        """
        place = Moment(row.epoch, row.step, row.progress)
        if place == self._place:
            return False
        for fact in self._reads:
            require(place, fact)
        for decision, op in scheduled_ops(self._plan, place):
            self._params[f"d{decision.index}"] = params_of(op)
        self._place = place
        return True


def check_schedules(plan: Plan, places: Iterable[Moment]) -> None:
    """Try every schedule of a plan at these places.

    Raises:
        BuildError: an op refuses its parameters there; names the user's line and the place.
    """
    for place in places:
        for _ in scheduled_ops(plan, place):
            pass


def scheduled_ops(plan: Plan, place: Moment) -> Iterator[tuple[Decision, Op]]:
    """Yield the decisions that follow a schedule, with their ops at a place.

    Raises:
        BuildError: an op refuses its parameters there, or needs other sizes or more memory.
        UsageError: the place lacks a fact that a schedule reads.
    """
    for decision in plan.decisions:
        if decision.schedule is not None:
            for fact in sorted(decision.schedule.facts):
                require(place, fact)
            params = decision.schedule.at(place)
            try:
                op = op_at(decision, place)
                check_states(plan, decision, op)
            except StokerError as error:
                raise _refused(decision, place, params, error) from None
            yield decision, op


def _refused(
    decision: Decision, place: Moment, params: Mapping[str, Any], error: StokerError
) -> BuildError:
    site = decision.site
    schedule = decision.schedule
    names = sorted({name for name, _, _ in schedule.varies}) if schedule else []
    given = ", ".join(f"{name}={params[name]!r}" for name in names)
    said = ", ".join(f"{fact} {getattr(place, fact)}" for fact in FACTS)
    return BuildError(
        f"{site}: at {said} its schedule gives {decision.op.name} {given}: {error.message}",
        op=decision.op.name,
        file=site.file,
        line=site.line,
    )


def require(place: Moment, fact: str) -> None:
    """Check that a place has a fact that a pipeline reads.

    Raises:
        UsageError: it does not.
    """
    if getattr(place, fact) is not None:
        return
    if fact == "progress":
        raise UsageError(
            "the pipeline reads ctx.progress, so the length of the training must be known: pass "
            "total_epochs= to the Loader, or progress= in process",
            fact=fact,
        )
    raise UsageError(
        f"the pipeline reads ctx.{fact}, which this row does not have: pass {fact}= when computing "
        "outside of a stream",
        fact=fact,
    )
