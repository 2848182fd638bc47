"""The draws of a pipeline so far: which one a value was made with, and by which op.

Later code of the function may read a number of a draw (`ops.drawn`), or whether an instance changed
its values (`flip.applied`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from stoker.ops.bases.batch_op import BatchOp
from stoker.ops.contract.op import Op
from stoker.ops.contract.units import switch_of
from stoker.pipeline.tracing.value_refusals import fault


class OpCall(NamedTuple):
    """A call of an op: the op, the number of its draw, and the block that it is in."""

    op: Op
    draw: int
    block: int


class Decided:
    """The calls of a pipeline, by result and by instance."""

    def __init__(self) -> None:
        self._of_value: dict[int, OpCall] = {}
        self._last: dict[int, OpCall] = {}
        self._scaled: set[int] = set()

    def note(self, call: OpCall, results: Sequence[int]) -> None:
        """Note a call and its results; the instance stays alive, so its id is its own."""
        self._of_value |= dict.fromkeys(results, call)
        self._last[id(call.op)] = call

    def note_scaled(self, results: Iterable[int]) -> None:
        """Note results whose sizes differ from that which the decision was made for."""
        self._scaled.update(results)

    def op_of(self, result: int) -> Op | None:
        """Return the op that made a value; None for all other values."""
        call = self._of_value.get(result)
        return None if call is None else call.op

    def number(self, result: int, name: str) -> OpCall:
        """Return the call that made a value and drew a number of that name for it.

        Raises:
            BuildError: the value is not the result of an op, or its op draws no such number.
        """
        call = self._of_value.get(result)
        if call is None:
            raise fault(f"{name}: expected the result of an op that decided it")
        _require_draw_of_row(call.op, name)
        if result in self._scaled:
            raise fault(
                f"{name}: {call.op.name} decided for the first value of its call, and scaled the "
                "decision to the size of this one (relative=True): read it from the first result",
                op=call.op.name,
            )
        names = numbers_of(call.op)
        if name not in names:
            raise fault(
                f"a decision of {call.op.name} has no number {name!r}; it has: "
                f"{', '.join(names) or 'none'}",
                op=call.op.name,
            )
        return call

    def switch(self, op: Op) -> tuple[OpCall, str]:
        """Return the last call of an instance, and the number that is 0 if it changed nothing.

        Raises:
            BuildError: there was no call, or the op has no such number.
        """
        what, call, switch = f"{op.name}.applied", self._last.get(id(op)), switch_of(op)
        if call is None:
            raise fault(
                f"{what}: this instance has not been called in this pipeline: call it first, as in "
                f"image = flip(image), and read flip.applied after that",
                op=op.name,
            )
        _require_draw_of_row(op, what)
        if switch is None:
            names = ", ".join(numbers_of(op))
            remedy = f'; ops.drawn(image, "NAME") reads what it drew: {names}' if names else ""
            why = "does not record whether it was applied" if hasattr(op, "p") else "always applies"
            raise fault(f"{what}: {op.name} {why}{remedy}", op=op.name)
        return call, switch


def numbers_of(op: Op) -> list[str]:
    """Return the names of the single numbers in an op's record."""
    fields: Mapping[str, Any] = op.record.fields or {}
    return [name for name, (dtype, *_) in fields.items() if not dtype.shape and name != "none"]


def _require_draw_of_row(op: Op, what: str) -> None:
    if isinstance(op, BatchOp):
        raise fault(
            f"{what}: {op.name} mixes finished rows, so it has drawn nothing yet while a row is "
            "computed: pass params=True to the Loader, and read it from the batch",
            op=op.name,
        )
