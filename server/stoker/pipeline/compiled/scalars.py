"""Scalars in programs: constants, facts of the row, fields of records, conditions, arithmetic.

A scalar is a word of the value table (an int64, or the bits of a float64), or is in memory and
is loaded first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from stoker.ops.contract.states import State
from stoker.ops.contract.templates import adapted
from stoker.pipeline.compiled.adapters import number_by
from stoker.pipeline.compiled.emitter import Emitter, bits
from stoker.pipeline.compiled.kernel_calls import own
from stoker.pipeline.compiled.loop_instructions import ELEMENTS
from stoker.pipeline.graph import statistics
from stoker.pipeline.graph.expressions import LOGIC
from stoker.pipeline.graph.nodes import STATISTICS
from stoker.pipeline.planning.engine_tables import physical
from stoker.pipeline.planning.steps import (
    SIZES,
    ConstStep,
    ContextStep,
    ElementStep,
    ExprStep,
    RecordStep,
    Step,
)

_STATISTICS: Final = {
    "mean": (statistics.mean_of, "float64"),
    "sum": (statistics.sum_of, "int64"),
    "max": (statistics.max_of, "int64"),
    "min": (statistics.min_of, "int64"),
    "any": (statistics.any_of, "int64"),
    "all": (statistics.all_of, "int64"),
}
_OF_FLOATS: Final = {
    "mean": (statistics.mean_of_floats, "float64"),
    "sum": (statistics.sum_of_floats, "float64"),
}
_STATISTICS_OF: Final = {
    "float32": {
        **_OF_FLOATS,
        "max": (statistics.max_of_floats, "float64"),
        "min": (statistics.min_of_floats, "float64"),
    },
    "float64": {
        **_OF_FLOATS,
        "max": (statistics.max_of_doubles, "int64"),
        "min": (statistics.min_of_doubles, "int64"),
    },
    "int64": {"mean": _OF_FLOATS["mean"]},
}
"""Statistics that differ by dtype; those of float64 give bits."""


class Scalars:
    """Writes the steps that make scalars.

    Attributes:
        emit: the program.
        states: value -> its state.
        in_register: whether a scalar is a word of the value table, and not in memory.
        sized: value -> the line whose sides are its size.
    """

    def __init__(
        self,
        emit: Emitter,
        states: Mapping[int, State],
        in_register: Callable[[int], bool],
        sized: Callable[[int], int],
    ) -> None:
        self.emit = emit
        self.states = states
        self.in_register = in_register
        self.sized = sized

    def number(self, step: Step) -> None:
        """Write a step that makes a scalar."""
        match step:
            case ConstStep():
                word = bits(step.value) if isinstance(step.value, float) else int(step.value)
                self.emit.values[step.dst][0] = word
            case ContextStep():
                self.context(step)
            case RecordStep():
                self.field(step)
            case ExprStep():
                self.expression(step)
            case ElementStep():
                self.element(step)

    def context(self, step: ContextStep) -> None:
        """Set a fact about the row."""
        if step.name == "step":
            self.emit.step_lines.append(step.dst)
        elif step.name == "progress":
            self.emit.progress_lines.append(step.dst)
        else:
            self.emit.add(step.name, step.dst)

    def field(self, step: RecordStep) -> None:
        """Read a field of a record."""
        fields: Mapping[str, Any] = step.decision.op.record.fields or {}
        dtype, offset = fields[step.name][:2]
        line = self.emit.new_line(0)
        self.emit.add("field", line, step.decision.index, offset, ELEMENTS.index(dtype.name))
        self.cast(line, dtype.kind == "f", step.type_, step.dst)

    def scalar(self, value: int) -> tuple[int, bool]:
        """Return the line that holds a scalar as a word, and whether it is a float64."""
        state = self.states[value]
        if self.in_register(value):
            return value, bool(is_float(state))
        line = self.emit.new_line(0)
        self.emit.add("load", line, value, element_of(state))
        return line, bool(is_float(state))

    def truth(self, value: int) -> int:
        """Return the line of a scalar that is 0 if it is false."""
        line, floating = self.scalar(value)
        if floating:
            self.emit.add("truth_f", test := self.emit.new_line(0), line)
            return test
        return line

    def cast(self, line: int, floating: bool, dtype: str, dst: int) -> None:
        """Turn a word into a bool, int64 or float64."""
        if dtype == "bool":
            self.emit.add("truth_f" if floating else "truth", dst, line)
        elif dtype == "float64" and not floating:
            self.emit.add("to_float", dst, line)
        elif floating == (dtype == "float64"):
            self.emit.add("move", dst, line)
        else:
            raise TypeError("a float is never truncated to an integer")

    def expression(self, step: ExprStep) -> None:
        """Compute a scalar from values."""
        op, args = step.op, step.args
        if op in SIZES:
            self.emit.add("side", step.dst, self.sized(args[0]), int(op == "width"))
        elif op in STATISTICS:
            self.statistic(step)
        elif op in LOGIC:
            truths = []
            for arg in args:
                line, floating = self.scalar(arg)
                self.cast(line, floating, "bool", test := self.emit.new_line(0))
                truths.append(test)
            self.emit.add(op, step.dst, *truths)
        else:
            self.arithmetic(step)

    def arithmetic(self, step: ExprStep) -> None:
        """Compute a scalar from scalars."""
        real = "float64" in step.types or step.op == "div"
        lines = []
        for arg in step.args:
            line, floating = self.scalar(arg)
            if real and not floating:
                self.emit.add("to_float", wide := self.emit.new_line(0), line)
                line = wide
            lines.append(line)
        self.emit.add(step.op + "_f" * real, step.dst, *lines)

    def element(self, step: ElementStep) -> None:
        """Read an element of an array."""
        state = self.states[step.src]
        lines = [self.scalar(index)[0] for index in step.indices]
        given = (step.check, element_of(state), item_bytes(state), len(lines))
        self.emit.add("element", step.dst, step.src, *given, *lines)

    def statistic(self, step: ExprStep) -> None:
        """Compute a statistic of an array."""
        src = self.states[step.args[0]]
        rule, dtype = (_STATISTICS | _STATISTICS_OF.get(src.dtype, {}))[step.op]
        line = self.emit.new_line(0, 1, 1)
        self.emit.pointers[line] = step.dst
        dst = State.fixed("array", dtype, (1,))
        call = own(adapted(number_by, rule), step.op, src, dst)
        self.emit.kernel(call, step.args[0], line, 0)


def element_of(state: State) -> int:
    """Return the index in ELEMENTS of the type of a value's elements in memory."""
    return ELEMENTS.index(physical(state.dtype))


def is_float(state: State) -> int:
    """Return 1 for float32 and float64, else 0."""
    return int(state.dtype in ("float32", "float64"))


def item_bytes(state: State) -> int:
    """Return the bytes of an element of a value in memory."""
    return np.dtype(physical(state.dtype)).itemsize
