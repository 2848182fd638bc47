"""Folds: ops that make one value from all values they are called with.

A fold has one kernel for each kind, called once for each value in the order of the call, with one
destination; so the number of values is not part of compiled code. See `FoldKernel`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from stoker.ops.contract.kernel_forms import FoldKernel, Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.states import State, StateError

MOST: Final = 64
"""Maximum number of values of one call: the limit of a graph node."""


@dataclass(frozen=True)
class Fold(Op):
    """Base of folds: two values or more, all of one kind, dtype and shape."""

    kernels: ClassVar[dict[str, Kernel]] = {}
    call_options = ("stream",)
    folds: ClassVar[dict[str, FoldKernel]]

    def require_alike(self, states: tuple[State, ...]) -> None:
        """Refuse values that cannot become one; sizes that differ from row to row may be equal.

        Raises:
            StateError: there are too few or too many values, one has no rule, or they differ.
        """
        first = states[0]
        for state in states:
            if state.kind not in self.folds:
                raise self.no_rule(state)
        if not 2 <= len(states) <= MOST:
            raise StateError(
                f"{self.name} makes one value of several: expected 2 to {MOST} values in one call, "
                f"got {len(states)}",
                op=self.name,
            )
        for state in states[1:]:
            pairs = zip(first.shape, state.shape, strict=False)
            same = len(first.shape) == len(state.shape) and all(
                a == b or (axis < 2 and None in (a, b)) for axis, (a, b) in enumerate(pairs)
            )
            if not same or (state.kind, state.dtype) != (first.kind, first.dtype):
                raise StateError(
                    f"{self.name}: expected values of one kind, dtype and shape, got {first} and "
                    f"{state}. Crop or resize them alike, and convert them after {self.name} or "
                    "all of them before it",
                    op=self.name,
                )
