"""The second argument of a pipeline function, `ctx`: facts about the row, and draws of its own.

    @pipeline
    def train(sample, ctx):
        image = sample.image
        if ctx.epoch >= 10 and ctx.chance(0.3):
            image = ops.gaussian_blur(image)

The facts follow from a row's place in the stream, so they hold in every worker and right after a
resume. Epoch, step and progress may also be used in op parameters (`graph.schedule`). Draws
have stream names like those of ops.
"""

from __future__ import annotations

import difflib

from stoker.ops.values.choice_ops import Chance, Integer, Uniform
from stoker.pipeline.tracing.trace import GraphTracer
from stoker.pipeline.tracing.value_refusals import fault
from stoker.pipeline.tracing.values import TracedValue


class Context:
    """The facts about a row besides its sample; every member is a traced value."""

    def __init__(self, tracer: GraphTracer) -> None:
        self._tracer = tracer

    @property
    def id(self) -> TracedValue:
        """The sample id, from 0; the substitute's id if a bad sample is replaced."""
        return self._tracer.input("stoker.id")

    @property
    def epoch(self) -> TracedValue:
        """The epoch, from 0."""
        return self._tracer.input("stoker.epoch")

    @property
    def step(self) -> TracedValue:
        """The step in the epoch, from 0; the same for all rows of a global batch."""
        return self._tracer.input("stoker.step")

    @property
    def progress(self) -> TracedValue:
        """The part of the training that is over, from 0 to 1, over all steps in `total_epochs`."""
        return self._tracer.input("stoker.progress")

    @property
    def bucket_height(self) -> TracedValue:
        """Height in pixels of the outputs of the sample's bucket."""
        return self._tracer.input("stoker.bucket_height")

    @property
    def bucket_width(self) -> TracedValue:
        """Width in pixels of the outputs of the sample's bucket."""
        return self._tracer.input("stoker.bucket_width")

    @property
    def bucket_length(self) -> TracedValue:
        """Maximum length of the sequences of the sample's bucket."""
        return self._tracer.input("stoker.bucket_length")

    @property
    def view(self) -> TracedValue:
        """The view of the position, from 0."""
        return self._tracer.input("stoker.view")

    def chance(self, p: float, *, stream: str | None = None) -> TracedValue:
        """Return a bool that is true with probability p; default stream `chance`."""
        chosen: TracedValue = self._tracer.choose(Chance(p), "apply", stream, "chance") == 1
        return chosen

    def uniform(self, low: float, high: float, *, stream: str | None = None) -> TracedValue:
        """Return a number, uniform in [low, high]; default stream `uniform`."""
        return self._tracer.choose(Uniform(low, high), "number", stream, "uniform")

    def integer(self, first: int, last: int, *, stream: str | None = None) -> TracedValue:
        """Return an integer from first to last, both included; default stream `integer`."""
        return self._tracer.choose(Integer(first, last), "number", stream, "integer")

    def __getattr__(self, name: str) -> TracedValue:
        if name.startswith("__"):
            raise AttributeError(name)
        members = [member for member in vars(Context) if not member.startswith("_")]
        near = difflib.get_close_matches(name, members, 1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        raise fault(
            f"ctx has no {name!r}{hint}; it has id, epoch, step, progress, view, bucket_height, "
            "bucket_width, bucket_length, chance(p), uniform(low, high) and integer(first, last)"
        )
