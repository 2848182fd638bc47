"""Outputs with a form: which sides of their rows may differ, and whether the form fits.

The sides that vary are the first ones. For images and masks these are height and width, even if
they are equal in a dataset, so that a batch looks the same over any dataset; for other values they
are those up to the last that differs, at least the first. Rows of a list may differ in every side.
Runs wherever a plan is made.
"""

from __future__ import annotations

import numpy as np

from stoker.ops.contract.states import IMAGE_KINDS, State
from stoker.pipeline.graph.nodes import Form
from stoker.protocol.errors import BuildError
from stoker.protocol.layout import Output


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
