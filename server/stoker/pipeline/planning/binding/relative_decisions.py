"""Checks that a decision can be rescaled to another size, for `relative=True`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stoker.ops.contract.states import State
from stoker.pipeline.planning.decision import Decision, made_for, source_of
from stoker.pipeline.planning.op_declarations import params_of


def refusal(decision: Decision, states: Mapping[int, State]) -> str | None:
    """Return why a decision cannot be carried over from the size of its source, and the remedy.

    Args:
        decision: one that has a source.
        states: value -> its state.

    Returns:
        None if it can be, or if that depends on the sizes of each row.
    """
    op, rule = decision.op, decision.op.rescale
    if rule is None:
        return (
            f"{op.name} decides in pixels, which have no meaning at another size, so "
            "it cannot take relative=True. Resize one of them first, or give each its own call and "
            "stream"
        )
    first, other = (states[made_for(d)] for d in (source_of(decision), decision))
    if not (first.is_fixed and other.is_fixed):
        return None
    params: Any = params_of(op).view(np.recarray)
    record = np.zeros(1, np.dtype((np.record, op.record)))[0]
    if rule(params, record, (*first.bound[:2], *other.bound[:2])):
        return None
    return (
        "with relative=True, its values must have the same ratio of height to width, up to "
        "rounding. Resize or crop one of them first"
    )
