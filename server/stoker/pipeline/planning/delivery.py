"""Outputs: how each value that is returned gets into a slot."""

from __future__ import annotations

from typing import Final

from stoker.pipeline.graph.nodes import (
    Form,
)
from stoker.pipeline.planning.bound import FIXERS, Bound
from stoker.pipeline.planning.formed import formed_output
from stoker.pipeline.planning.mixes import Mixes
from stoker.pipeline.planning.steps import (
    Step,
    StoreSizedStep,
    StoreStep,
)
from stoker.protocol.layout import SIZE, Output

HINT: Final = (
    "choose how rows of differing shape make a batch: outputs.pad(...), outputs.ragged(...) or "
    "outputs.as_list(...) of it"
)


class OutputBinder:
    """Binds outputs."""

    def __init__(self, bound: Bound, mixing: Mixes) -> None:
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
