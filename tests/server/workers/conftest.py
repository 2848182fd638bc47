"""A supervisor with real processes, driven by a small loop; a tiny packed dataset."""

import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import skimage.data

from stoker import ops
from stoker.dataset import open_dataset
from stoker.dataset.format.schema import Schema, image, label
from stoker.dataset.packing.build import write_dataset
from stoker.pipeline import pipeline
from stoker.pipeline.planning.plan import bind
from stoker.protocol.layout import slot_layout
from stoker.protocol.spec import StreamSpec
from stoker.server.daemon.launch import Launched
from stoker.server.daemon.supervisor import Supervisor
from stoker.server.rows.graphs import graph_to_bytes
from stoker.server.rows.states import field_states
from stoker.server.work.records import OpenStream, Work

ROWS = 10
DEADLINE_S = 120.0


@pipeline
def small(sample):
    picture = ops.random_resized_crop(sample.image, size=16)
    return {"image": picture, "label": sample.label}


class Rig:
    """A supervisor, the events it reported, and a loop that waits for one of them."""

    def __init__(
        self,
        cache: Path,
        fail_points: str = "",
        shares: int = 1,
        debug_memory: bool = False,
        template: Launched | None = None,
    ) -> None:
        self.events: list[object] = []
        self.supervisor = Supervisor(
            cache_root=str(cache),
            python_path=[],
            fail_points=fail_points,
            shares=shares,
            on_event=self.events.append,
            now=time.monotonic,
            debug_memory=debug_memory,
            template=template,
        )
        self.supervisor.start()

    def wait(self, kind: type, condition: Callable[[object], bool] = lambda event: True):
        """Run the loop until such an event came; return it and forget it."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            for event in self.events:
                if isinstance(event, kind) and condition(event):
                    self.events.remove(event)
                    return event
            left = deadline - time.monotonic()
            assert left > 0, f"no {kind.__name__} within {DEADLINE_S} s; got {self.events}"
            callbacks = self.supervisor.descriptors()
            for fd in select.select(list(callbacks), [], [], min(left, 0.5))[0]:
                callback = self.supervisor.descriptors().get(fd)
                if callback is not None:
                    callback()


@pytest.fixture
def rig(kernel_cache: Path) -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(*args: object, **fields: object) -> Rig:
        made.append(Rig(kernel_cache, *args, **fields))
        return made[-1]

    yield make
    for one in made:
        one.supervisor.close()


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
                pipeline=graph.pipeline_id,
                batch_size=batch_size,
                **fields,
            )
        layout = slot_layout(plan.outputs, batch_size * spec.views)
        return OpenStream(stream, str(small_dataset), spec, graph_to_bytes(graph), layout, 0)

    return make


@pytest.fixture
def work_of() -> Callable[..., Work]:
    """Make a chunk: all rows of a step into slot 0, unless told otherwise."""

    def make(opened: OpenStream, claim: int = 1, step: int = 0, rows: range | None = None) -> Work:
        rows = rows or range(opened.layout.rows)
        size = opened.layout.slot_bytes
        return Work(claim, opened.stream, 0, step, 1, 0, 1, 0, size, rows.start, rows.stop)

    return make
