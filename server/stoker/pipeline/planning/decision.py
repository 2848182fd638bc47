"""One draw, as a plan knows it: its op, its stream, what it sees, and what it follows."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.ops.contract.op import Op
from stoker.pipeline.graph.schedule import Schedule
from stoker.pipeline.graph.sites import Site


@dataclass(frozen=True)
class Decision:
    """One draw: whose record every apply that follows it reads.

    Attributes:
        index: its place among the plan's decisions.
        op: the op with its parameters.
        stream: stream name; None if the op draws nothing.
        of: value whose height and width the draw sees; None: it sees 0 and 0.
        site: where the user wrote it.
        schedule: how its parameters follow the place in the stream; None: they do not. Then `op`
            has the parameters of the first row.
        shared: whether all views of a position decide alike.
        items: value of boxes or keypoints that the draw looks at; None: it looks at none.
        source: the decision that this one is, in parts of the sides of `of`; None: it is drawn.
    """

    index: int
    op: Op
    stream: str | None
    of: int | None
    site: Site
    schedule: Schedule | None = None
    shared: bool = False
    items: int | None = None
    source: Decision | None = None


def source_of(decision: Decision) -> Decision:
    """Return the decision that one which is carried over follows."""
    assert decision.source is not None, "only what is carried over is rescaled"
    return decision.source


def made_for(decision: Decision) -> int:
    """Return the value for whose size a decision is made."""
    assert decision.of is not None, "binding carries over between sizes alone"
    return decision.of
