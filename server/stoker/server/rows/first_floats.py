"""Reads the range of float images from a dataset's first sample if packing did not record it.

Live sources declare no range, and ops of colors take floats for 0 to 1. So when a pipeline is built
that reads such an image, the first sample is made, and the pipeline is bound with its range once
more. The plan stays as it was: workers bind without a sample. Other samples are not looked at.
"""

import numpy as np

from stoker.dataset import Dataset
from stoker.dataset.reading.clip_dataset import ClipDataset
from stoker.ops.contract.states import OTHER, UNKNOWN, span_of, with_span
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.planning.bucket_graph import Size
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import StokerError
from stoker.server.rows.field_states import field_states
from stoker.server.rows.sample_reader import SampleReader


def check_first_floats(graph: Graph, dataset: Dataset, plan: Plan, bucket: Size | None) -> None:
    """Refuse a pipeline whose ops do not take the floats of the first sample.

    Args:
        graph: of the pipeline.
        dataset: what it reads; of clips the frames count.
        plan: the pipeline, bound to the dataset's fields.
        bucket: size of the bucket whose samples are computed; None without buckets.

    Raises:
        BuildError: an op expects floats from 0 to 1, or a mean is of another scale.
    """
    names = [
        name for name, state in zip(plan.fields, plan.inputs, strict=True) if state.scale == UNKNOWN
    ]
    stored = dataset.frames if isinstance(dataset, ClipDataset) else dataset
    if not names or not len(stored):
        return
    try:
        values = SampleReader(stored, names).read(0)
    except StokerError:
        return  # a bad sample is for the policy of the stream
    states = field_states(dataset)
    for name, value in zip(names, values, strict=True):
        states[name] = with_span(states[name], span_of(np.asarray(value)))
    if any(states[name].scale == OTHER for name in names):
        bind(graph, states, bucket=bucket)
