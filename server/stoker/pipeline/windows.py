"""Which box of an encoded picture a pipeline will read, known before the picture is decoded.

A decision is a function of the row and of sizes, and sizes are in the dataset's side columns. So
where every use of a field is an op that reads a box of it (`Op.reads`), or its height and width
alone, the box is computed first and the decoder leaves out the rest. Several crops of one picture
read the box round them all. The decisions are drawn again by the engine, with the same result.

A small function is generated and compiled like the glue. Belongs to one thread; numba-free until
it is made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np

from stoker.pipeline.build import load_glue
from stoker.pipeline.engine import Freeze, Row, check_freeze, write_row
from stoker.pipeline.glue import Glue
from stoker.pipeline.plan import Plan
from stoker.pipeline.steps import (
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
)
from stoker.pipeline.tables import params_table, records_table, streams_table
from stoker.rng.jit import compiled

Box = tuple[int, int, int, int]
"""(top, left, height, width) in pixels."""

_NO_PIXELS: Final = (InputStep, DrawStep, SameSizeStep, ConstStep, ContextStep, RecordStep)
_HEADER: Final = '''"""Boxes that a Stoker pipeline reads: {ops}.

Generated; may be deleted at any time. rows (1, 4) holds seed, id, epoch, lane; sizes (fields, 2)
height and width of each picture; boxes (fields, 4) takes top, left, height, width.
"""

from stoker.ops.registry import lookup
from stoker.pipeline.support import key_of
from stoker.rng.jit import kernel

'''


def windowed(plan: Plan) -> dict[str, tuple[Decision, ...]]:
    """Return the fields of which a plan reads only boxes: field -> the decisions that say which."""
    values = {
        step.dst: plan.fields[step.column] for step in plan.steps if isinstance(step, InputStep)
    }
    found: dict[str, dict[int, Decision]] = {name: {} for name in values.values()}
    for value, decision in _uses(plan.steps):
        name = values.get(value)
        if name in found:
            if decision is None:
                del found[name]
            else:
                found[name][decision.index] = decision
    return {name: tuple(decisions.values()) for name, decisions in found.items() if decisions}


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
        found = {name: some for name, some in windowed(plan).items() if name in wanted}
        self.fields = tuple(found)
        if not found:
            return
        self._function = compiled(load_glue(_write(found))[1])
        self._rows = np.zeros((1, 4), np.uint64)
        self._tables = (
            streams_table(plan.decisions, check_freeze(plan, freeze)),
            params_table(plan.decisions),
            records_table(plan.decisions),
        )
        self._sizes = np.ones((len(found), 2), np.int64)
        self._boxes = np.zeros((len(found), 4), np.int64)
        self._function(self._rows, *self._tables, self._sizes, self._boxes)

    def boxes(self, row: Row, sizes: Mapping[str, tuple[int, int]]) -> dict[str, Box]:
        """Return the box of each field that a row reads; `sizes` are (height, width) by field."""
        write_row(self._rows[0], row)
        for place, name in enumerate(self.fields):
            self._sizes[place] = sizes[name]
        self._function(self._rows, *self._tables, self._sizes, self._boxes)
        found = zip(self.fields, self._boxes.tolist(), strict=True)
        return {name: (box[0], box[1], box[2], box[3]) for name, box in found}


def _write(found: Mapping[str, tuple[Decision, ...]]) -> Glue:
    """Write the function; numbers come from the tables, so plans of one structure share it."""
    imports: dict[str, str] = {}
    kernels = []
    lines = []
    for place, decisions in enumerate(found.values()):
        lines.append(f"    h, w = sizes[{place}, 0], sizes[{place}, 1]")
        for number, decision in enumerate(decisions):
            op, k = type(decision.op), decision.index
            for what in ("draw", "reads"):
                imports[f"{what}_{k}"] = f"lookup({op.name!r}).{what}"
                kernels.append(getattr(op, what))
            lines += [
                f'    draw_{k}(key_of(rows[0], streams[{k}]), p["d{k}"], h, w, d["d{k}"])',
                f'    t, l, a, b = reads_{k}(p["d{k}"], d["d{k}"], h, w)',
                "    top, left, bottom, right = t, l, t + a, l + b"
                if not number
                else "    top, left = min(top, t), min(left, l)\n"
                "    bottom, right = max(bottom, t + a), max(right, l + b)",
            ]
        lines += [
            f"    boxes[{place}, 0], boxes[{place}, 1] = top, left",
            f"    boxes[{place}, 2], boxes[{place}, 3] = bottom - top, right - left",
        ]
    ops = ", ".join(dict.fromkeys(d.op.name for some in found.values() for d in some))
    text = [
        _HEADER.format(ops=ops) + "\n".join(f"{k} = {v}" for k, v in imports.items()),
        "",
        "",
        "@kernel",
        "def run(rows, streams, params, records, sizes, boxes):",
        "    p, d = params[0], records[0]",
        *lines,
        "",
    ]
    return Glue("\n".join(text), np.zeros(1, np.int64), np.zeros(1), tuple(dict.fromkeys(kernels)))
