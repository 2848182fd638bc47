"""Binding of ops with `decode="scaled"`: their image becomes an input of its own.

The decoder makes the smaller image, so the image must be a field, no other step may read its
pixels, and the box must be known before it is decoded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from stoker.ops.contract.op import Op
from stoker.ops.contract.states import State
from stoker.pipeline.planning.bound_graph import BoundGraph
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.scaled_fields import scaled_name
from stoker.pipeline.planning.steps import InputStep, Step, StoreSizedStep, StoreStep, walk

_REMEDY: Final = 'or leave out decode="scaled", which decodes the whole image'


class ScaledInputs:
    """The inputs of a graph that are decoded at a fraction.

    Attributes:
        steps: the steps that take them.
    """

    def __init__(self, bound: BoundGraph) -> None:
        self._bound = bound
        self._calls: dict[int, tuple[str, int]] = {}
        self.steps: list[Step] = []

    def take(self, decision: Decision, src: int, state: State, value: int) -> int:
        """Return the input that replaces the image of a call.

        Args:
            decision: of an op with `decodes_scaled`.
            src: its image.
            state: the state of the image.
            value: the result.
        """
        bound, what = self._bound, _called(decision.op)
        drawn = decision.source or decision
        fields = {number: name for name, number in bound.fields.items()}
        if src not in fields or (drawn.of is not None and drawn.of not in fields):
            bound.fail(
                value,
                f"{what} reads {bound.named(src if src not in fields else drawn.of or src)}: "
                "expected a field of the sample, because the decoder makes the smaller image: "
                f"call it before all other ops that change the image, {_REMEDY}",
                op=decision.op.name,
            )
        if drawn.schedule is not None or drawn.row_parameters:
            bound.fail(
                value,
                f"{what}: expected parameters that are numbers, because the box must be known "
                f"before the image is decoded, {_REMEDY}",
                op=decision.op.name,
            )
        if src in self._calls:
            _, other = self._calls[src]
            bound.fail(
                value,
                f"{what} reads field {fields[src]!r}, which the call at {bound.site(other)} "
                "reads at another fraction of its size: only one call can have "
                f'decode="scaled"; leave it out of both, which decode the image once',
                op=decision.op.name,
            )
        self._calls[src] = what, value
        made = bound.new_value(src)
        bound.states[made] = replace(state, shape=(None, None, *state.shape[2:]), shortest=0)
        check = bound.check("input", f"field {fields[src]!r} is {state}", src, fields[src])
        self.steps.append(InputStep(made, len(bound.fields), check))
        bound.fields[scaled_name(fields[src])] = made
        return made

    def check(self, steps: list[Step]) -> None:
        """Refuse another reader of an image that is decoded at a fraction."""
        for step, _ in walk(steps):
            for src in self._calls.keys() & set(step.reads):
                what, value = self._calls[src]
                self._bound.fail(
                    value,
                    f"{what} reads {self._bound.named(src)}, whose pixels are also read by "
                    f"{self._reader(step)}: leave that out, {_REMEDY}",
                )

    def _reader(self, step: Step) -> str:
        if isinstance(step, StoreStep | StoreSizedStep):
            return f"output {self._bound.outputs[step.output].name!r}"
        decision = getattr(step, "decision", None)
        if isinstance(decision, Decision):
            return f"{decision.op.name} at {decision.site}"
        made = step.writes[0] if step.writes else 0
        return f"an expression at {self._bound.site(made)}"


def _called(op: Op) -> str:
    return f'{op.default_stream or op.name.removesuffix("_scaled")} with decode="scaled"'
