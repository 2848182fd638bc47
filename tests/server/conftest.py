"""A tiny packed dataset, a stream over it, and chunks of that stream."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from asking import served

from stoker import ops
from stoker.dataset import open_dataset
from stoker.dataset.format.fields import Schema
from stoker.dataset.format.schema import image, label
from stoker.dataset.packing.build import write_dataset
from stoker.pipeline import pipeline
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.planning.planner import bind
from stoker.protocol.slot_layout import slot_layout
from stoker.protocol.spec import StreamSpec
from stoker.server.rows.field_states import field_states
from stoker.server.rows.graphs import graph_to_bytes
from stoker.server.work.work_records import OpenStream, Work

ROWS = 10


@pipeline
def small(sample):
    picture = ops.random_resized_crop(sample.image, size=16)
    return {"image": picture, "label": sample.label}


@pytest.fixture(scope="session")
def small_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten raw crops of a photograph, 20 x 24, with labels 0..9."""
    photo = skimage.data.astronaut()
    rows = (
        {"image": np.ascontiguousarray(photo[9 * n : 9 * n + 20, 100:124]), "label": n}
        for n in range(ROWS)
    )
    dest = tmp_path_factory.mktemp("small") / "data"
    write_dataset(dest, Schema((image(encoding="raw"), label())), rows)
    return dest


@pytest.fixture
def stream_of(small_dataset: Path) -> Callable[..., OpenStream]:
    """Make the OpenStream of a stream over the small dataset."""

    def make(stream: int = 1, batch_size: int = 4, **fields: object) -> OpenStream:
        with open_dataset(small_dataset) as dataset:
            graph = small.graph()
            plan = bind(graph, field_states(dataset))
            spec = StreamSpec(
                dataset=dataset.fingerprint,
                dataset_rows=len(dataset),
                pipeline=pipeline_id(graph),
                batch_size=batch_size,
                **fields,
            )
        layout = slot_layout(plan.outputs, batch_size * spec.views)
        return OpenStream(
            stream, served(str(small_dataset), spec, graph_to_bytes(graph)), layout, 0
        )

    return make


@pytest.fixture
def work_of() -> Callable[..., Work]:
    """Make a chunk: all rows of a step into slot 0, unless told otherwise."""

    def make(opened: OpenStream, claim: int = 1, step: int = 0, rows: range | None = None) -> Work:
        rows = rows or range(opened.layout.rows)
        size = opened.layout.slot_bytes
        return Work(claim, opened.stream, 0, step, 1, 0, 1, 0, size, rows.start, rows.stop)

    return make


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, as sockets need it."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)
