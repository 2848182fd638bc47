"""From a dataset's schema to the states that a pipeline begins with."""

from dataclasses import replace

from msgspec import UNSET

from stoker.dataset import Dataset, Field
from stoker.dataset.format.manifest import FieldStatistics
from stoker.ops.contract.states import State, with_span
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.planning.bucket_graph import Size
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.planner import bind, shorten


def field_states(dataset: Dataset) -> dict[str, State]:
    """Return the state of every field of a dataset, by name."""
    seen = dataset.manifest.statistics.fields
    return {field.name: _state(field, seen.get(field.name)) for field in dataset.schema.fields}


def worker_plan(graph: Graph, dataset: Dataset, bucket: Size | None = None) -> Plan:
    """Return the plan that workers run: checked as it was written, then shortened.

    Args:
        graph: of the pipeline.
        dataset: what it reads.
        bucket: size of the bucket whose samples are computed; None without buckets.

    Raises:
        BuildError: the pipeline does not fit the dataset.
    """
    return shorten(bind(graph, field_states(dataset), bucket=bucket))


def _state(field: Field, seen: FieldStatistics | None) -> State:
    classes = (field.classes or ()) if field.kind in ("label", "mask", "keypoints") else ()
    if field.items is UNSET:
        sides = tuple(field.shape), tuple(field.bound)
        state = State(field.meaning, field.dtype, *sides, classes=classes)
        span = None if seen is None else seen.values
        if span is not None or field.dtype == "float32":
            state = with_span(state, span)
        if state.is_fixed or seen is None or seen.height is None or seen.width is None:
            return state
        return replace(state, shortest=min(seen.height[0], seen.width[0]))
    items = State.ragged(field.kind, field.items.fields, field.bound[0], field.items.of or "")
    return replace(items, classes=classes)
