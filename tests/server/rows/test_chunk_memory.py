"""A worker's chunk makes no memory of the size of a picture: all of it was there before."""

import io
import tracemalloc

import numpy as np
import pytest
import skimage.data
from PIL import Image

from stoker import ops
from stoker.dataset import open_dataset, schema
from stoker.dataset.packing.build import write_dataset
from stoker.jit.arithmetic import COMPILED
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.planning.planner import bind
from stoker.protocol.slot_layout import slot_layout
from stoker.server.rows.field_states import field_states
from stoker.server.rows.reference import make_spec
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_rows import RowSource

HEIGHT, WIDTH, SIDE, BATCH = 300, 360, 200, 8
PIXEL_BYTES = HEIGHT * WIDTH * 3


@pipeline
def train(sample):
    image = ops.random_resized_crop(sample.image, size=SIDE)
    if sample.label > 3:
        image = ops.horizontal_flip(image)
    return {"image": ops.normalize(image), "label": sample.label}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    photo = skimage.data.astronaut()

    def encoded(number):
        file = io.BytesIO()
        crop = photo[number : number + HEIGHT, :WIDTH]
        Image.fromarray(crop).save(file, "jpeg", quality=80)
        return file.getvalue()

    path = tmp_path_factory.mktemp("chunk") / "data"
    fields = schema.Schema((schema.image(encoding="jpeg"), schema.label()))
    write_dataset(path, fields, ({"image": encoded(n), "label": n} for n in range(2 * BATCH)))
    with open_dataset(path) as opened:
        yield opened


@pytest.mark.slow
def test_a_chunk_allocates_nothing_of_the_size_of_a_picture(dataset):
    graph = train.graph()
    spec = make_spec(dataset.path, graph, batch_size=BATCH, seed=1)
    plan = bind(graph, field_states(dataset))
    layout = slot_layout(plan.outputs, BATCH)
    computer = RowComputer(
        spec, [RowSource(dataset, compile_plan(plan))], layout, arithmetic=COMPILED
    )
    slot = np.zeros(layout.slot_bytes, np.uint8)
    computer.fill(slot, 0, 0, 0, BATCH)
    first = slot.copy()
    tracemalloc.start()
    try:
        computer.fill(slot, 0, 1, 0, BATCH)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (slot != first).any()
    assert peak < PIXEL_BYTES / 8, f"{peak} bytes were made while rows were computed"
