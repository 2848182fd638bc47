"""Which box of an encoded picture a pipeline will read, known before the picture is decoded.

A decision is a function of the row and of sizes, and sizes are in the dataset's side columns. So
where every use of a field is an op that reads a box of it (`Op.reads`), or its height and width
alone, the box is computed first and the decoder leaves out the rest. Several crops of one picture
read the box round them all. The decisions are drawn again by the engine, with the same result.

A small program asks the ops (`compiled.program`). Belongs to one thread; numba-free until it
is made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np

from stoker.pipeline.compiled.machine import Machine
from stoker.pipeline.compiled.program import write_boxes
from stoker.pipeline.engine.interface import Freeze, Row, check_freeze, write_row
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.steps import (
    ApplyStep,
    ConstStep,
    ContextStep,
    Decision,
    DrawStep,
    ExprStep,
    FoldStep,
    IfStep,
    InputStep,
    ItemsStep,
    RecordStep,
    SameSizeStep,
    Step,
    made_for,
)
from stoker.pipeline.planning.tables import (
    aligned_arena,
    params_table,
    records_table,
    streams_table,
)
from stoker.protocol.layout import ALIGN

Box = tuple[int, int, int, int]
"""(top, left, height, width) in pixels."""

_NO_PIXELS: Final = (InputStep, DrawStep, SameSizeStep, ConstStep, ContextStep, RecordStep)


def windowed(plan: Plan) -> dict[str, tuple[Decision, ...]]:
    """Return the fields of which a plan reads only boxes: field -> the decisions that say which."""
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


def field_values(plan: Plan) -> dict[int, str]:
    """Return the values of a plan that are fields: value -> field."""
    steps = (step for step in plan.steps if isinstance(step, InputStep))
    return {step.dst: plan.fields[step.column] for step in steps}


def wanted_windows(
    plan: Plan, wanted: Collection[str]
) -> tuple[dict[str, tuple[Decision, ...]], tuple[str, ...]]:
    """Return `windowed` of the wanted fields, and the fields whose sizes say which boxes.

    The latter begin with the former. A field that follows a decision for another one in parts of
    its sides needs the size of both.
    """
    values = field_values(plan)
    found = {name: some for name, some in windowed(plan).items() if name in wanted}
    sources = (d.source for some in found.values() for d in some if d.source)
    return found, tuple(dict.fromkeys((*found, *(values[made_for(d)] for d in sources))))


def _uses(steps: tuple[Step, ...]) -> Iterator[tuple[int, Decision | None]]:
    """Yield the values whose pixels are read, with the decision that bounds them, or None."""
    for step in steps:
        if isinstance(step, ApplyStep):
            yield step.src, step.decision if _bounds(step.decision) else None
        elif isinstance(step, IfStep):
            yield step.cond, None
            yield from _uses(step.then)
            yield from _uses(step.orelse)
            yield from ((side, None) for join in step.joins for side in (join.then, join.orelse))
        elif isinstance(step, ExprStep):
            if step.op not in ("height", "width"):
                yield from ((value, None) for value in step.args)
        elif isinstance(step, FoldStep):
            yield from ((src, None) for src in step.srcs)
        elif isinstance(step, ItemsStep):
            yield step.src, None  # of its frame only the size is read
        elif not isinstance(step, _NO_PIXELS):
            yield step.src, None


def _bounds(decision: Decision) -> bool:
    """Whether a decision says which box of a picture is read, and can be had from its size."""
    from_sizes = decision.schedule is None and decision.items is None
    return type(decision.op).reads is not None and from_sizes


class Windows:
    """Computes the boxes that rows of a plan read.

    Attributes:
        fields: the fields that it knows boxes of, in the order of `boxes`.
        sized: the fields whose sizes it asks for.
    """

    def __init__(self, plan: Plan, wanted: Collection[str], freeze: Freeze | None = None) -> None:
        """Compile, or load from the cache on disk.

        Args:
            plan: the plan.
            wanted: fields whose boxes are of use.
            freeze: as for the engine.

        Raises:
            ResourceError: the kernel cache cannot be written.
        """
        found, self.sized = wanted_windows(plan, wanted)
        self.fields = tuple(found)
        if not found:
            return
        self._rows = np.zeros((1, 4), np.uint64)
        self._samples = np.zeros((0, 1), np.int64)
        self._machine = Machine(
            write_boxes(found, self.sized, field_values(plan)),
            0,
            0,
            streams_table(plan.decisions, check_freeze(plan, freeze)),
            params_table(plan.decisions),
            records_table(plan.decisions),
            aligned_arena(0, ALIGN),
        )

    def boxes(self, row: Row, sizes: Mapping[str, tuple[int, int]]) -> dict[str, Box]:
        """Return the box of each field that a row reads; `sizes` are (height, width) by field."""
        write_row(self._rows[0], row)
        count, values = len(self.sized), self._machine.values
        for place, name in enumerate(self.sized):
            values[place, 1:3] = sizes[name]
        self._machine.run(self._rows, self._samples)
        found = {}
        boxes = values[count : count + len(self.fields)].tolist()
        for name, words in zip(self.fields, boxes, strict=True):
            top, left, bottom, right = words[1:5]
            found[name] = (top, left, bottom - top, right - left)
        return found
