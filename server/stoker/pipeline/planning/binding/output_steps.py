"""Outputs: how each value that is returned gets into a slot, and whether its form fits.

The sides that vary in an output with a form are the first ones. For images and masks these are
height and width, even if they are equal in a dataset, so that a batch looks the same over any
dataset; for other values they are those up to the last that differs, at least the first. Rows of a
list may differ in every side.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stoker.ops.contract.states import IMAGE_KINDS, State
from stoker.pipeline.graph.nodes import (
    Form,
)
from stoker.pipeline.planning.bound_graph import FIXERS, BoundGraph
from stoker.pipeline.planning.mixes import Mixes
from stoker.pipeline.planning.steps import (
    Step,
    StoreSizedStep,
    StoreStep,
)
from stoker.protocol.errors import BuildError
from stoker.protocol.slot_layout import SIZE, Output

HINT: Final = (
    "choose how rows of differing shape make a batch: outputs.pad(...), outputs.ragged(...) or "
    "outputs.as_list(...) of it"
)


class OutputBinder:
    """Binds outputs."""

    def __init__(self, bound: BoundGraph, mixing: Mixes) -> None:
        self.bound = bound
        self.mixing = mixing

    def store(self, output: Output, value: int, steps: list[Step]) -> None:
        """Store a value whose rows have one shape."""
        steps.append(StoreStep(len(self.bound.outputs), value))
        self.bound.outputs.append(output)
        self.bound.stores.append(value)

    def form_fits(self, form: Form, mixed: int, value: int) -> None:
        """Refuse combinations of forms and batch ops that cannot work."""
        if mixed != value:
            self.bound.fail(
                mixed,
                f"output {form.output!r}: a batch op mixes rows of one shape, so the output cannot "
                f"have a form ({form.form}): return it as it is",
                output=form.output,
            )
        if form.form == "pad" and self.mixing.roots:
            self.bound.fail(
                value,
                f"output {form.output!r}: a pipeline with batch ops cannot pad, since rows that are"
                " mixed are computed for others too: deliver it by outputs.as_list or "
                "outputs.ragged",
                output=form.output,
            )

    def store_sized(self, form: Form, value: int, steps: list[Step]) -> None:
        """Store a value whose rows differ in shape, and their sizes."""
        state, name = self.bound.states[value], form.output
        output = self.bound.within(value, f"output {name!r}", lambda: formed_output(form, state))
        check = self.bound.check("padded", f"output {name!r} is {state}", value)
        steps.append(StoreSizedStep(len(self.bound.outputs), value, form, output.varies, check))
        sizes = Output(f"{name}.{SIZE}", "int64", (len(output.varies),), SIZE)
        self.bound.outputs += [output, sizes]
        self.bound.stores += [value, value]

    def output(self, name: str, value: int) -> Output:
        """Return the output that a value is delivered as."""
        state = self.bound.states[value]
        if state.items:
            return Output(name, state.dtype, state.bound, state.kind, state.items)
        if not state.is_fixed:
            self.bound.fail(
                value,
                f"output {name!r} is {state}, whose size differs from sample to sample, so its "
                f"rows cannot be stacked: fix its size with {FIXERS}, or {HINT}",
                output=name,
            )
        return Output(name, state.dtype, tuple(side for side in state.shape if side), state.kind)


def formed_output(form: Form, state: State) -> Output:
    """Return what a batch holds for a value that is delivered in a form.

    Raises:
        BuildError: a value of that state cannot have the form.
    """
    if state.items:
        raise BuildError(
            f"{state.kind} are delivered as values and offsets, and cannot have another form: "
            "return them as they are"
        )
    if not state.shape:
        raise BuildError(
            f"{state} is one number, which cannot have a form ({form.form}): return it as it is"
        )
    varies = _varies(form, state)
    free = [place for place, side in enumerate(state.shape) if side is None]
    if not set(free) <= set(varies):
        raise BuildError(
            f"rows of {state} differ in more than the first sides: only outputs.as_list can hold "
            "them"
        )
    bound = [max(side, 1) for side in state.bound]
    if form.form == "pad":
        _check_fill(form, state)
        for place in varies:
            bound[place] = -(-bound[place] // form.multiple) * form.multiple
    return Output(form.output, state.dtype, tuple(bound), state.kind, (), form.form, varies)


def _varies(form: Form, state: State) -> tuple[int, ...]:
    rank = len(state.shape)
    if form.form == "list":
        return tuple(range(rank))
    if state.kind in IMAGE_KINDS:
        return (0, 1)
    last = max((place for place, side in enumerate(state.shape) if side is None), default=0)
    return tuple(range(min(last, 1) + 1))


def _check_fill(form: Form, state: State) -> None:
    dtype, fill = np.dtype(state.dtype), form.fill
    if dtype.kind == "f":
        good, expected = abs(fill) <= float(np.finfo(dtype).max), f"a number that {dtype} holds"
    elif dtype.kind == "b":
        good, expected = fill in (0, 1), "0 or 1"
    else:
        limits = np.iinfo(dtype)
        good = isinstance(fill, int) and limits.min <= fill <= limits.max
        expected = f"an integer from {limits.min} to {limits.max}"
    if not good:
        raise BuildError(f"pad: expected fill for {state} to be {expected}, got {fill!r}")
