"""How large the padded outputs of rows are, computed without a pixel; for many rows in one call.

A small function is generated and compiled like the glue, of the steps that `sizing` found: draws,
size rules and conditions. Rows, draws and parameters are those of the engine, so are the sizes.
Belongs to one thread of a worker. Imports numba once it is made. The plain form is
`stoker.pipeline.plain_sizes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stoker.ops.contract import no_draw
from stoker.pipeline.build import load_glue
from stoker.pipeline.engine import Freeze, Row, check_freeze
from stoker.pipeline.following import Follower
from stoker.pipeline.glue import Glue, Writer
from stoker.pipeline.plan import Plan
from stoker.pipeline.sizing import Sizing, sizing_of
from stoker.pipeline.steps import (
    ApplyStep,
    ConstStep,
    ContextStep,
    ConvertStep,
    DrawStep,
    ExprStep,
    FoldStep,
    IfStep,
    InputStep,
    RecordStep,
    Step,
)
from stoker.pipeline.tables import params_table, records_table, streams_table
from stoker.rng.jit import compiled_apart

_NUMBERS: Final = (ConstStep, ContextStep, ExprStep, RecordStep)
_HEADER: Final = '''"""Sizes of the padded outputs of a Stoker pipeline: {ops}.

Generated; may be deleted at any time. rows (n, 4) holds seed, id, epoch, lane; sizes (n, fields, 2)
height and width, or length and 1, of each field; in0, in1, ... numbers of each row; out (n,
outputs, 2) takes the sizes.
"""

import numpy as np

from stoker.ops.registry import lookup
from stoker.pipeline.support import floordiv, key_of, mod
from stoker.rng.jit import kernel

'''


class SizeFinder:
    """Computes the sizes of the padded outputs of rows; see `stoker.pipeline.sizing.Sizes`."""

    def __init__(self, plan: Plan, freeze: Freeze | None = None) -> None:
        """Write the function, and compile it or load it from the cache on disk.

        Args:
            plan: a plan with padded outputs.
            freeze: as for the engine.

        Raises:
            ResourceError: the kernel cache cannot be written.
        """
        from stoker.pipeline.diagnose import calls_apart  # noqa: PLC0415 - loads numba

        glue = _Writer(plan, sizing_of(plan)).write()
        draws = (call for call in calls_apart(plan) if call[0] in set(glue.kernels))
        self._function = compiled_apart(load_glue(glue)[1], draws)
        params = params_table(plan.decisions)
        self._follower = Follower(plan, params)
        self._glue = glue
        self._outputs = len(sizing_of(plan).outputs)
        self._tables = (
            glue.numbers,
            glue.floats,
            streams_table(plan.decisions, check_freeze(plan, freeze)),
            params,
            records_table(plan.decisions),
        )

    def find(
        self, place: Row, rows: np.ndarray, sizes: np.ndarray, numbers: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return the sizes of rows of one step; see `stoker.pipeline.sizing.Sizes`."""
        if self._follower.active and self._follower.follow(place):
            if self._glue.step is not None:
                self._tables[0][self._glue.step] = place.step
            if self._glue.progress is not None:
                self._tables[1][self._glue.progress] = place.progress
        found = np.zeros((len(rows), self._outputs, 2), np.int64)
        self._function(rows, *self._tables, sizes, *numbers, found)
        return found


class _Writer(Writer):
    """Writes the function; a value is its sides, `h3` and `w3`, and a scalar is `v3`."""

    def __init__(self, plan: Plan, sizing: Sizing) -> None:
        """Begin with an empty function."""
        super().__init__(plan)
        self.sizing = sizing

    def write(self) -> Glue:
        """Return the function."""
        self.steps(self.plan.steps, 2)
        for place, step in enumerate(self.sizing.outputs):
            height, width = self.sides(step.src)
            self.lines.append(f"        out[r, {place}, 0], out[r, {place}, 1] = {height}, {width}")
        names = [self.plan.decisions[index].op.name for index in sorted(self.sizing.decisions)]
        args = "".join(f"in{place}, " for place in range(len(self.sizing.read)))
        text = [
            _HEADER.format(ops=", ".join(dict.fromkeys(names)) or "no op"),
            *self.imports.values(),
            "",
            "",
            "@kernel",
            f"def run(rows, n, f, streams, params, records, sizes, {args}out):",
            "    p, d = params[0], records[0]",
            "    for r in range(rows.shape[0]):",
            *self.lines,
            "",
        ]
        return Glue(
            "\n".join(text),
            np.array(self.numbers or [0], np.int64),
            np.array(self.floats or [0.0], np.float64),
            tuple(self.kernels),
            self.places.get("step"),
            self.places.get("progress"),
        )

    def step(self, step: Step) -> list[str]:
        lines: list[str] = []
        match step:
            case InputStep():
                lines = self.take(step)
            case DrawStep(decision=decision) if decision.index in self.sizing.decisions:
                if type(decision.op).draw is not no_draw:
                    lines = self.draw(decision)[:1]
            case ApplyStep() | FoldStep() if self.wanted(step.dst):
                sides = (f"h{step.dst}", f"w{step.dst}")
                lines = [self.out_size(step.decision, step.srcs[0], sides)]
            case ConvertStep():
                lines = self.convert(step)
            case _ if isinstance(step, _NUMBERS) and step.dst in self.sizing.numbers:
                lines = [f"v{step.dst} = {self.value(step)}"]
        return lines

    def branch(self, step: IfStep, depth: int) -> None:
        joins = [join for join in step.joins if self.wanted(join.dst) or self.counts(join.dst)]
        inner = [self.block(block, depth + 1) for block in (step.then, step.orelse)]
        if not joins and not any(inner):
            return
        pad = "    " * depth
        for word, lines, side in zip(
            (f"if {self.scalar(step.cond)} != 0:", "else:"), inner, ("then", "orelse"), strict=True
        ):
            own = []
            for join in joins:
                source = getattr(join, side)
                if self.counts(join.dst):
                    own.append(f"{pad}    v{join.dst} = {self.scalar(source)}")
                else:
                    own.append(f"{pad}    {self.assigned(join.dst, self.sides(source))}")
            body = [*lines, *own]
            self.lines += [pad + word, *(body or [f"{pad}    pass"])]

    def block(self, steps: tuple[Step, ...], depth: int) -> list[str]:
        outer, self.lines = self.lines, []
        self.steps(steps, depth)
        inner, self.lines = self.lines, outer
        return inner

    def take(self, step: InputStep) -> list[str]:
        if self.counts(step.dst):
            return [f"v{step.dst} = in{self.sizing.read.index(step.column)}[r]"]
        if not self.wanted(step.dst):
            return []
        place = self.sizing.measured.index(step.column)
        return [self.assigned(step.dst, (f"sizes[r, {place}, 0]", f"sizes[r, {place}, 1]"))]

    def convert(self, step: ConvertStep) -> list[str]:
        if self.counts(step.dst):
            return [f"v{step.dst} = {self.scalar(step.src)}"]
        return []

    def expression(self, step: ExprStep) -> str:
        if step.op == "count":
            return self.sides(step.args[0])[0]
        return super().expression(step)

    def wanted(self, value: int) -> bool:
        """Whether the sides of a value are computed: they count and are not fixed."""
        return value in self.sizing.sizes and not self.plan.states[value].is_fixed

    def counts(self, value: int) -> bool:
        """Whether a scalar counts."""
        return value in self.sizing.numbers

    def assigned(self, value: int, sides: tuple[str, str]) -> str:
        return f"h{value}, w{value} = {sides[0]}, {sides[1]}"

    def scalar(self, value: int) -> str:
        return f"v{value}"

    def sides(self, value: int) -> tuple[str, str]:
        value = self.sizing.roots.get(value, value)
        shape = self.plan.states[value].shape
        names = [
            f"{letter}{value}" if side is None else self.number(side)
            for letter, side in zip("hw", shape, strict=False)
        ]
        return names[0] if names else "1", names[1] if len(names) > 1 else "1"
