"""Decisions without pixels: what a pipeline would do to a row, from sizes and scalars alone.

Draws depend on the row, on sizes and, for a few ops, on boxes, so they can be computed without
decoding. The plan is walked as by the interpreter, but an image is only a shape, and image
kernels do not run; boxes and keypoints that are given are moved. If a condition or parameter reads
a number that an op computes from pixels, the answer depends on pixels, and the error says so.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from stoker.pipeline.engine.interface import Freeze
from stoker.pipeline.graph.nodes import STATISTICS
from stoker.pipeline.plain.interpreter import Interpreter, PlainRun
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.engine_tables import physical
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.steps import (
    ArrayStep,
    ConvertStep,
    ElementStep,
    ExprStep,
    IfStep,
    InputStep,
    ItemsStep,
    KernelStep,
    Step,
    VectorsStep,
)
from stoker.protocol.errors import UsageError
from stoker.rng.row import Row


def decide(
    plan: Plan,
    row: Row,
    sizes: Mapping[str, tuple[int, int]],
    scalars: Mapping[str, Any] | None = None,
    freeze: Freeze | None = None,
    items: Mapping[str, np.ndarray] | None = None,
) -> list[dict[str, Any]]:
    """Return the decisions of a row: op, stream, site and record of each, in order.

    Args:
        plan: the plan.
        row: the row.
        sizes: field -> (height, width), for the images and masks whose size differs per sample.
        scalars: field -> number, for the labels and scalars that conditions read; for boxes and
            keypoints their count.
        freeze: stream name -> integer or "epoch".
        items: field -> records (n, words) of boxes or keypoints, for the decisions that read them;
            these need no count.

    Raises:
        UsageError: a size or scalar is missing, items are not records, a decision reads items
            that are not given, or a condition depends on pixels.
        SampleError: the sizes do not fit, or do not match each other.
    """
    engine = Interpreter(plan, freeze)
    known: Mapping[str, np.ndarray] = items or {}
    _check_items(plan, known)
    columns = [
        known[name] if name in known else _stand_in(plan, index, name, sizes, scalars or {})
        for index, name in enumerate(plan.fields)
    ]
    engine.drawn = []
    _Dry(engine, row, columns, scalars or {}, known).steps(plan.steps)
    return engine.records()


def _check_items(plan: Plan, items: Mapping[str, np.ndarray]) -> None:
    for name, state in zip(plan.fields, plan.inputs, strict=True):
        if name not in items:
            continue
        if not state.items:
            raise UsageError(f"decide: field {name!r} is {state}: items are boxes or keypoints")
        given, words = np.asarray(items[name]), state.bound[1]
        if given.shape[1:] != (words,) or given.ndim != 2 or given.dtype.name != state.dtype:
            raise UsageError(
                f"decide: field {name!r} is {state}: expected its records in items, (n, {words}) "
                f"{state.dtype}, got {given.dtype} of shape {given.shape}; if only their number is "
                "known, give it in scalars"
            )


def _stand_in(
    plan: Plan,
    index: int,
    name: str,
    sizes: Mapping[str, tuple[int, int]],
    scalars: Mapping[str, Any],
) -> np.ndarray:
    state = plan.inputs[index]
    if not state.shape:
        if name not in scalars:
            raise UsageError(f"decide: field {name!r} is {state}: give its value in scalars")
        return np.array([scalars[name]], state.dtype)
    if state.items:
        return np.zeros((int(scalars.get(name, 0)), state.bound[1]), state.dtype)
    shape = list(state.shape)
    if name in sizes:
        shape[:2] = sizes[name][: len(shape)]
    if None in shape:
        raise UsageError(f"decide: field {name!r} is {state}: give its height and width in sizes")
    return shape_only(tuple(side or 0 for side in shape), state.dtype)


def shape_only(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return an array that has a shape and almost no memory."""
    return np.broadcast_to(np.zeros((), physical(dtype)), shape)


class _Dry(PlainRun):
    """A run without kernels of pixels.

    `unknown` holds the values that depend on pixels or items, `blank` the boxes and keypoints
    of which at most the number is known. `counted` are the fields whose number is known, `given`
    those whose records are given.
    """

    def __init__(
        self,
        engine: Interpreter,
        row: Row,
        columns: list[np.ndarray],
        counted: Container[str],
        given: Container[str],
    ) -> None:
        super().__init__(engine, row, columns)
        self.unknown: set[int] = set()
        self.blank: set[int] = set()
        self.counted = counted
        self.given = given

    def draw(self, decision: Decision) -> None:
        if decision.op.draws_from == "mask":
            raise UsageError(
                f"decide: {decision.op.name} at {decision.site} reads the pixels of a mask, so its "
                "decision is not known without them: replay the sample instead (`stoker replay` "
                "without --params-only)"
            )
        if decision.items in self.blank:
            raise UsageError(
                f"decide: {decision.op.name} at {decision.site} reads {decision.op.draws_from}: "
                "give the records of their field in items"
            )
        super().draw(decision)

    def compute(self, step: KernelStep, shape: tuple[int, ...]) -> np.ndarray:
        self.unknown.add(step.dst)
        return shape_only(shape, self.plan.states[step.dst].dtype)

    def turn(self, step: VectorsStep) -> None:
        self.unknown.add(step.dst)
        self.env[step.dst] = self.env[step.src]

    def take(self, step: InputStep) -> None:
        super().take(step)
        name = self.plan.fields[step.column]
        if self.plan.states[step.dst].items and name not in self.given:
            self.blank.add(step.dst)
            if name not in self.counted:
                self.unknown.add(step.dst)

    def items(self, step: ItemsStep) -> None:
        if step.src not in self.blank:
            super().items(step)
            return
        self.blank.add(step.dst)
        self.unknown.add(step.dst)
        self.env[step.dst] = self.env[step.src][:0]

    def scalar(self, step: Step) -> None:
        if isinstance(step, ExprStep) and self._needs_pixels(step):
            self.unknown.add(step.dst)
            self.env[step.dst] = 0
        else:
            super().scalar(step)

    def _needs_pixels(self, step: ExprStep) -> bool:
        known_of_all = step.op in ("height", "width")
        made_of = not known_of_all and self.unknown.intersection(step.args)
        return step.op in STATISTICS or bool(made_of)

    def element(self, step: ElementStep) -> None:
        self.unknown.add(step.dst)
        self.env[step.dst] = 0

    def elementwise(self, step: ArrayStep) -> None:
        shapes = [self.env[arg].shape for arg in step.args if self.plan.states[arg].shape]
        self.unknown.add(step.dst)
        self.env[step.dst] = shape_only(shapes[0], self.plan.states[step.dst].dtype)

    def branch(self, step: IfStep) -> None:
        super().branch(step)
        taken = self.number(step.cond) != 0
        for join in step.joins:
            for known in (self.unknown, self.blank):
                if (join.then if taken else join.orelse) in known:
                    known.add(join.dst)

    def convert(self, step: ConvertStep) -> None:
        if step.src in self.unknown:
            self.unknown.add(step.dst)
            if self.plan.places[step.dst].kind == "register":
                self.env[step.dst] = 0
                return
        super().convert(step)

    def number(self, value: int) -> Any:
        if value in self.unknown:
            site = self.plan.graph.site(value)
            raise UsageError(
                "decide: a condition or parameter reads a number computed from pixels, boxes or "
                f"arrays at {site}, so the decisions are not known without them: replay the "
                "sample instead (`stoker replay` without --params-only)"
            )
        return super().number(value)
