"""A graph bound to the fields of a dataset becomes a plan."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.ops.contract.states import State
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import normalize
from stoker.pipeline.planning.arena import lay_out
from stoker.pipeline.planning.binding import bind_graph
from stoker.pipeline.planning.bucketed import Size, in_bucket
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.shortcuts import shorten
from stoker.pipeline.planning.sizing import sizing_of
from stoker.pipeline.planning.unneeded import check_unneeded


def bind(
    graph: Graph,
    states: Mapping[str, State],
    *,
    bucket: Size | None = None,
    shortcuts: bool = False,
) -> Plan:
    """Bind a graph to the fields of a dataset.

    Args:
        graph: a traced graph, or one read from data.
        states: field name -> state of the field in the dataset.
        bucket: size of the bucket whose samples are computed; None without buckets.
        shortcuts: whether steps may be merged if that is faster and gives the same bytes; see
            `stoker.pipeline.planning.shortcuts`.

    Raises:
        BuildError: a field is unknown, an op has no rule (even if nothing needs its result),
            sizes or branches do not fit, or an output has no fixed shape and no form that fits;
            names the user's file and line, op, states and remedy.
        UnknownNameError: there is no op of that name.
        VersionError: the graph was made for another version of an op.
    """
    normal = normalize(graph)
    settled = in_bucket(normal, bucket)
    shown = shorten(settled, states) if shortcuts else settled
    bound = bind_graph(shown, states, linked=not shortcuts)
    check_unneeded(normal.unneeded, states)
    layout = lay_out(bound)
    plan = Plan(
        pipeline_id=normal.digest,
        graph=bound.graph,
        fields=tuple(bound.fields),
        inputs=tuple(bound.states[value] for value in bound.fields.values()),
        outputs=tuple(bound.outputs),
        stores=tuple(bound.stores),
        streams=tuple(sorted({d.stream for d in bound.decisions if d.stream is not None})),
        decisions=tuple(bound.decisions),
        steps=layout.steps,
        states=bound.states,
        places=layout.places,
        scratch=layout.scratch,
        arena_bytes=layout.arena_bytes,
        checks=tuple(bound.checks),
        mixes=bound.mixes,
    )
    sizing_of(plan)
    return plan
