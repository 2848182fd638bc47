"""The samples that a pipeline reads of a dataset: its rows, or its clips."""

from stoker.dataset import Dataset
from stoker.dataset.reading.clip_dataset import ClipDataset
from stoker.pipeline.graph.graph import Graph
from stoker.protocol.errors import BuildError


def samples_of(dataset: Dataset, graph: Graph) -> Dataset:
    """Return the dataset, or its clips if the pipeline samples their frames.

    Raises:
        DatasetError: the frames of a clip are not next to each other.
        UsageError: the dataset has no field that says which frames are a clip.
    """
    return dataset if graph.clip is None else ClipDataset(dataset, graph.clip.by)


def refuse_clips(graph: Graph, what: str) -> None:
    """Refuse a pipeline that samples frames where rows must be samples.

    Raises:
        BuildError: it does; `what` names the place.
    """
    if graph.clip is not None:
        raise BuildError(
            f"{what}: the pipeline samples frames of clips, expected one whose rows are samples: "
            "leave sample_frames out, or give each clip dataset a stream of its own"
        )
