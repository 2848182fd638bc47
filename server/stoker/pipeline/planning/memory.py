"""How much memory an engine of a plan needs besides inputs and outputs, and for which step most.

Sizes are bytes and bounds: a row of a dataset whose images differ in size needs the memory of the
largest one at most.
"""

from typing import NamedTuple

from stoker.ops.bases.batch import GROUP
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.steps import OpStep, walk


class Working(NamedTuple):
    """The memory of one engine.

    Attributes:
        size_bytes: its arena, and with batch ops the rows that it keeps.
        most_bytes: what the step with the most needs of it.
        most: that step, as `op (file:line)`; empty if no step needs any.
    """

    size_bytes: int
    most_bytes: int
    most: str


def working_memory(plan: Plan) -> Working:
    """Return the memory that an engine of a plan needs for values between its steps."""
    kept = 0
    if plan.mixes:
        row = sum(output.row_bytes for output in plan.outputs)
        kept = (GROUP + 1) * row
    most_bytes, most = 0, ""
    for step, _ in walk(plan.steps):
        if not isinstance(step, OpStep):
            continue
        size = step.scratch_bytes
        if plan.places[step.dst].kind == "arena":
            size += plan.states[step.dst].bound_bytes
        if size > most_bytes:
            most_bytes, most = size, f"{step.decision.op.name} ({step.site})"
    if kept > most_bytes:
        most_bytes, most = (
            kept,
            f"{plan.mixes[0].decision.op.name}, which mixes groups of {GROUP} rows",
        )
    return Working(plan.arena_bytes + kept, most_bytes, most)
