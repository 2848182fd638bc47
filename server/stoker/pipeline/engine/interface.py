"""The protocol of engines, which run a plan; the executor and the interpreter share it.

An engine holds the memory of one sample and is used by one thread of one process at a time. `run`
computes one row: a pure function of (plan, freeze, row, inputs). It keeps nothing between calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from stoker.ops.contract.numbers import settled
from stoker.ops.contract.parameter_limits import is_number
from stoker.ops.contract.row_numbers import row_number
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.errors import UnknownNameError, UsageError
from stoker.protocol.spec import as_integer
from stoker.rng.row import Row

Freeze = Mapping[str, int | Literal["epoch"]]


def given_row(row: Row) -> Row:
    """Return a row passed in this process, with its fields as Python numbers.

    Raises:
        UsageError: a field is out of range or not a number; names the field.
    """
    progress: Any = settled(row.progress)
    if progress is not None and not (is_number(progress) and 0 <= progress <= 1):
        raise UsageError(f"progress: expected a number from 0 to 1, got {row.progress!r}")
    return Row(
        row_number("seed", row.seed),
        row_number("id", row.id),
        row_number("epoch", row.epoch),
        row_number("visit", row.visit),
        row_number("view", row.view),
        None if row.step is None else row_number("step", row.step),
        None if progress is None else float(progress),
    )


class Records(Protocol):
    """Has the draw records of the row that was computed last."""

    plan: Plan

    def record_of(self, index: int) -> bytes | None:
        """Return what a decision drew for the last computed row; None if it was not made.

        Args:
            index: of the decision, in `plan.decisions`.
        """
        ...


class Engine(Records, Protocol):
    """Computes rows of a plan."""

    def run(self, row: Row, inputs: Sequence[Any], outputs: Sequence[np.ndarray]) -> None:
        """Compute one row.

        Args:
            row: the row.
            inputs: one for each of `plan.fields`: image (H, W, C), mask (H, W), scalars 0-d.
            outputs: one for each of `plan.outputs`: writable, contiguous, with its dtype and shape.

        Raises:
            SampleError: sizes do not fit, or do not match each other; details name id and field.
        """
        ...


def check_freeze(plan: Plan, freeze: Freeze | None) -> dict[str, int | Literal["epoch"]]:
    """Return the freezes of a plan, checked.

    Raises:
        UnknownNameError: no op of the plan draws from a stream of that name.
        UsageError: a value is neither an unsigned 64-bit integer nor "epoch".
    """
    checked: dict[str, int | Literal["epoch"]] = {}
    for name, value in (freeze or {}).items():
        if name not in plan.streams:
            known = ", ".join(plan.streams) or "none, as nothing is drawn"
            raise UnknownNameError(
                f"freeze: there is no stream {name!r} in this pipeline; there are: {known}",
                stream=name,
            )
        number = as_integer(value)
        if value != "epoch" and (number is None or not 0 <= number < 2**64):
            raise UsageError(
                f"freeze[{name!r}]: expected an integer in [0, 2**64) or 'epoch', got {value!r}"
            )
        checked[name] = "epoch" if number is None else number
    return checked
