"""One sample of a dataset as it is stored, for `loader.dataset[n]`.

Runs in a replayer. Nothing of the pipeline is computed, so a sample that the pipeline cannot take
can still be looked at.
"""

import numpy as np

from stoker.dataset import Dataset
from stoker.dataset.reading.clip_dataset import ClipDataset
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.nodes import Input
from stoker.pipeline.graph.normal import normalize
from stoker.pipeline.plain.replay_row import value_parts
from stoker.protocol.replayed_row import Replay, ReplayValue
from stoker.protocol.spec import StreamSpec
from stoker.server.rows.field_states import field_states
from stoker.server.rows.sample_reader import SampleReader


def stored_sample(dataset: Dataset, graph: Graph, sample_id: int, spec: StreamSpec) -> Replay:
    """Return the fields of a sample that a pipeline reads; of a clip, those of its first frame.

    Args:
        dataset: an open dataset.
        graph: of the pipeline.
        sample_id: a sample of the dataset.
        spec: the stream, for its seed and its pipeline.

    Raises:
        SampleError: the sample cannot be read.
    """
    stored: Dataset = dataset
    if isinstance(dataset, ClipDataset):
        stored, sample_id = dataset.frames, dataset.rows(sample_id)[0]
    names = [node.field for node in normalize(graph).nodes if isinstance(node, Input)]
    states = field_states(stored)
    fields: list[ReplayValue] = []
    for number, value in enumerate(SampleReader(stored, names).read(sample_id)):
        state = states[names[number]]
        array = np.array(value, None if state.items else state.dtype)
        fields += value_parts(names[number], state.kind, number, None, array, state.items)
    return Replay(
        pipeline_id=spec.pipeline, seed=spec.seed, id=sample_id, epoch=0, visit=0, view=0,
        fields=tuple(fields), steps=(), outputs=(),
    )  # fmt: skip
