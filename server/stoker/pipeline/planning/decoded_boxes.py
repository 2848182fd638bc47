"""The fields of which a plan reads only boxes, and the decisions that choose the boxes.

A decision depends on the row and on sizes only, and sizes are in the dataset's side columns. So if
every use of a field is an op that reads a box of it (`Op.reads`), or only its height and width, the
box can be computed before the image is decoded. Pure functions of a plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from stoker.ops.bases.scaled_box import ScaledBox
from stoker.pipeline.planning.decision import Decision, made_for
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.scaled_fields import is_scaled
from stoker.pipeline.planning.steps import ApplyStep, InputStep, Step, walk

Box = tuple[int, int, int, int]
"""(top, left, height, width) in pixels."""


def windowed(plan: Plan) -> dict[str, tuple[Decision, ...]]:
    """Return the fields of which a plan reads only boxes: field -> decisions that choose them."""
    values = field_values(plan)
    found: dict[str, dict[int, Decision]] = {name: {} for name in values.values()}
    for value, decision in _uses(plan.steps):
        name = values.get(value)
        if name in found:
            if decision is None or (decision.source and decision.source.of not in values):
                del found[name]
            else:
                found[name][decision.index] = decision
    return {name: tuple(decisions.values()) for name, decisions in found.items() if decisions}


def scaled_ops(plan: Plan) -> dict[str, ScaledBox]:
    """Return the ops whose images are decoded at a fraction: name of the input -> op."""
    found = {name: some[0].op for name, some in windowed(plan).items() if is_scaled(name)}
    return {name: op for name, op in found.items() if isinstance(op, ScaledBox)}


def field_values(plan: Plan) -> dict[int, str]:
    """Return the values of a plan that are fields: value -> field."""
    steps = (step for step in plan.steps if isinstance(step, InputStep))
    return {step.dst: plan.fields[step.column] for step in steps}


def wanted_windows(
    plan: Plan, wanted: Collection[str]
) -> tuple[dict[str, tuple[Decision, ...]], tuple[str, ...]]:
    """Return `windowed` of the wanted fields, and the fields whose sizes decide the boxes.

    The latter begin with the former. A field whose decision is scaled from another field needs the
    size of both.
    """
    values = field_values(plan)
    found = {name: some for name, some in windowed(plan).items() if name in wanted}
    sources = (d.source for some in found.values() for d in some if d.source)
    return found, tuple(dict.fromkeys((*found, *(values[made_for(d)] for d in sources))))


def _uses(steps: tuple[Step, ...]) -> Iterator[tuple[int, Decision | None]]:
    """Yield the values whose pixels are read, with the decision that bounds them, or None."""
    for step, _ in walk(steps):
        decision = step.decision if isinstance(step, ApplyStep) else None
        bounds = decision if decision is not None and _bounds(decision) else None
        for value in step.reads:
            yield value, bounds


def _bounds(decision: Decision) -> bool:
    """Return whether a decision chooses the box of an image to read from the image's size alone."""
    of_rows = decision.source.row_parameters if decision.source else decision.row_parameters
    from_sizes = decision.schedule is None and decision.items is None and not of_rows
    return type(decision.op).reads is not None and from_sizes
