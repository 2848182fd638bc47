"""A graph bound to the fields of a dataset becomes a plan, by one function that checks it.

`bind` checks the graph as it was written, for every caller: a builder, a worker, replay, preview,
explain, a call in process. `shorten` takes a plan that `bind` made, so no plan is unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.ops.contract.states import State
from stoker.pipeline.graph.frame_sampling import FrameSampling
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import normalize
from stoker.pipeline.planning.binding.graph_walk import bind_graph, walk_graph
from stoker.pipeline.planning.binding.unneeded_kinds import check_unneeded
from stoker.pipeline.planning.bound_graph import BoundGraph
from stoker.pipeline.planning.bucket_graph import Size, in_bucket
from stoker.pipeline.planning.graph_shortcuts import shorter
from stoker.pipeline.planning.memory_layout import lay_out
from stoker.pipeline.planning.padded_sizes import sizing_of
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.schedule_sizes import check_sizes


def bind(
    graph: Graph,
    states: Mapping[str, State],
    *,
    bucket: Size | None = None,
) -> Plan:
    """Bind a graph to the fields of a dataset, and check it.

    Args:
        graph: a traced graph, or one read from data.
        states: field name -> state of the field in the dataset.
        bucket: size of the bucket whose samples are computed; None without buckets.

    Raises:
        BuildError: a field is unknown, an op has no rule (even if nothing needs its result),
            sizes or branches do not fit, or an output has no fixed shape and no form that fits;
            names the user's file and line, op, states and remedy.
        UnknownNameError: there is no op of that name.
        VersionError: the graph was made for another version of an op.
    """
    normal = normalize(graph)
    bound = bind_graph(in_bucket(normal, bucket), states)
    check_unneeded(normal.unneeded, states)
    if normal.clip is not None:
        _check_clip(bound)
    plan = _laid_out(bound, normal.digest)
    sizing_of(plan)
    check_sizes(plan)
    return plan


def shorten(plan: Plan) -> Plan:
    """Return a plan that computes less for the same bytes; see `planning.graph_shortcuts`.

    Args:
        plan: from `bind`. If there is nothing to shorten, it is returned.
    """
    graph = shorter(plan.graph, plan.given)
    if graph is plan.graph:
        return plan
    return _laid_out(walk_graph(graph, plan.given), plan.pipeline_id)


def _laid_out(bound: BoundGraph, pipeline_id: str) -> Plan:
    layout = lay_out(bound)
    return Plan(
        pipeline_id=pipeline_id,
        graph=bound.graph,
        given=bound.given,
        fields=tuple(bound.fields),
        inputs=tuple(bound.states[value] for value in bound.fields.values()),
        outputs=tuple(bound.outputs),
        stores=tuple(bound.stores),
        streams=tuple(sorted(_streams(bound, bound.graph.clip))),
        decisions=tuple(bound.decisions),
        steps=layout.steps,
        states=bound.states,
        places=layout.places,
        scratch=layout.scratch,
        arena_bytes=layout.arena_bytes,
        checks=tuple(bound.checks),
        mixes=bound.mixes,
        clip=bound.graph.clip,
    )


def _streams(bound: BoundGraph, clip: FrameSampling | None) -> set[str]:
    found = [decision.stream for decision in bound.decisions]
    if clip is not None:
        found.append(clip.stream)
    return {stream for stream in found if stream is not None}


def _check_clip(bound: BoundGraph) -> None:
    """Refuse outputs of frames that cannot be stacked."""
    forms = {form.output: form.form for form in bound.graph.forms}
    for name, value in bound.graph.outputs:
        what = ""
        if bound.mixes:
            what = (
                f"{bound.mixes[0].decision.op.name} mixes rows, and a frame has no row of its own"
            )
        elif bound.states[value].items:
            what = f"it is {bound.states[value].kind}, whose number differs from frame to frame"
        elif name in forms:
            what = f"its form is {forms[name]}, and frames are stacked"
        if what:
            bound.fail(
                value,
                f"output {name!r}: {what}: with sample_frames, expected outputs of one shape and "
                "no batch op",
            )
