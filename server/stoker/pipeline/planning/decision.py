"""One draw, as a plan knows it: its op, its stream, what it sees, and what it follows."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.ops.contract.op import Op
from stoker.pipeline.graph.schedule import Schedule
from stoker.pipeline.graph.sites import Site
from stoker.pipeline.planning.row_parameters import RowParameter


@dataclass(frozen=True)
class Decision:
    """One draw: every apply that follows it reads its record.

    Attributes:
        index: its index among the plan's decisions.
        op: the op with its parameters.
        stream: stream name; None if the op draws nothing.
        of: value whose height and width the draw receives; None: it receives 0 and 0.
        site: where the user wrote it.
        schedule: how its parameters follow the place in the stream; None if they are constant.
            With a schedule, `op` has the parameters of the first row.
        shared: whether all views of a position share the decision.
        items: value of boxes, keypoints or a mask that the draw reads; None: it reads none.
        source: the decision that is carried over to the sides of `of`; None: it is drawn.
        row_parameters: parameters that each row writes; `op` has numbers in their place.
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
    row_parameters: tuple[RowParameter, ...] = ()


def source_of(decision: Decision) -> Decision:
    """Return the decision that a carried-over decision follows."""
    assert decision.source is not None, "only a carried-over decision is rescaled"
    return decision.source


def made_for(decision: Decision) -> int:
    """Return the value whose size a decision is made for."""
    assert decision.of is not None, "binding carries over only between sizes"
    return decision.of
