"""Samples that the streams of a fork share: decoded once and whole, if that changes no byte."""

import io
import random

import numpy as np
import pytest
import skimage.data
from asking import served
from PIL import Image

from stoker import ops
from stoker.dataset import open_dataset, schema, write
from stoker.jit.arithmetic import COMPILED
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.protocol.errors import SampleError
from stoker.protocol.slot_layout import ALIGN, slot_layout
from stoker.protocol.spec import OrderSpec
from stoker.server.rows.field_states import worker_plan
from stoker.server.rows.listener import RowListener
from stoker.server.rows.reference import make_spec, reference_batches
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_rows import RowSource
from stoker.server.rows.shared import SharedSamples, WorkerForks, shared_bytes
from stoker.server.work.work_records import OpenStream, Work

B = 6
HEIGHT, WIDTH = 240, 300
SIZE = HEIGHT * WIDTH * 3


@pipeline
def crop(sample):
    image = ops.random_resized_crop(sample.image, size=32, scale=(0.05, 0.3))
    return {"image": ops.horizontal_flip(image)}


@pipeline
def center(sample):
    return {"image": ops.center_crop(sample.image, size=40)}


@pytest.fixture(scope="module")
def gridded(tmp_path_factory):
    """Six photographs of one size, with grids."""
    rows = []
    for number in range(B):
        out = io.BytesIO()
        pixels = skimage.data.astronaut()[number * 20 :][:HEIGHT, :WIDTH]
        Image.fromarray(pixels).save(out, "JPEG", quality=85)
        rows.append({"image": out.getvalue()})
    folder = tmp_path_factory.mktemp("shared") / "d"
    write(folder, [schema.image(grid=True)], rows)
    return folder


class Decodes(RowListener):
    def __init__(self):
        self.count = 0

    def decode_begins(self):
        self.count += 1


class Stream:
    """A stream of a fork, as a worker computes it."""

    def __init__(self, path, dataset, made, seed, shared, engine=None):
        self.spec = make_spec(path, made.graph(), batch_size=B, seed=seed, order=OrderSpec(seed=3))
        plan = worker_plan(made.graph(), dataset)
        self.listener, self.path, self.graph = Decodes(), path, made.graph()
        self.layout = slot_layout(plan.outputs, B)
        self.engine = engine or compile_plan(plan, {})
        self.computer = RowComputer(
            self.spec, [RowSource(dataset, self.engine)], self.layout, arithmetic=COMPILED,
            listener=self.listener, shared=shared,
        )  # fmt: skip

    def fill(self, lo, hi):
        slot = np.zeros(self.layout.slot_bytes, np.uint8)
        self.computer.fill(slot, 0, 0, lo, hi)
        place = self.layout.outputs[0]
        return np.ndarray(place.shape, place.dtype, slot, place.offset)[lo:hi]

    def expected(self):
        ((_, arrays),) = reference_batches(self.path, self.graph, self.spec, epoch=0)
        return arrays["image"]


@pytest.fixture
def two(gridded):
    """A dataset, what is shared, with room for four images, and two streams."""
    with open_dataset(gridded) as dataset:
        shared = SharedSamples(4 * (SIZE + ALIGN))
        made = [(crop, 1), (center, 2)]
        yield dataset, shared, [Stream(gridded, dataset, *one, shared) for one in made]


@pytest.mark.slow
def test_what_one_stream_decoded_the_next_one_reads(two):
    _, shared, (first, second) = two
    shared.enter((0, 0, 0), 1)
    assert np.array_equal(first.fill(0, 4), first.expected()[:4])
    shared.enter((0, 0, 0), 0)
    assert np.array_equal(second.fill(0, 4), second.expected()[:4])
    assert (first.listener.count, second.listener.count) == (4, 0)
    assert (shared.decodes, shared.found) == (4, 4)


@pytest.mark.slow
def test_what_has_no_room_is_decoded_by_each(two):
    _, shared, streams = two
    for behind, stream in zip((1, 0), streams, strict=True):
        shared.enter((0, 0, 0), behind)
        assert np.array_equal(stream.fill(0, 6), stream.expected())
    assert [stream.listener.count for stream in streams] == [6, 2]


@pytest.mark.slow
def test_a_stream_without_others_behind_it_decodes_boxes_alone(two):
    dataset, shared, (first, _) = two
    boxes, whole = [], dataset.decode_box
    dataset.decode_box = lambda *args: boxes.append(args[2]) or whole(*args)
    shared.enter((0, 0, 0), 0)
    first.fill(0, 4)
    assert (len(boxes), shared.decodes) == (4, 0)


@pytest.mark.slow
def test_decisions_that_were_drawn_for_a_box_serve_one_run_only(two):
    """The row whose box was computed last is computed again, of a whole image, after others."""
    _, shared, (first, _) = two
    shared.enter((0, 0, 0), 0)
    first.fill(0, 4)
    shared.enter((0, 0, 0), 1)
    assert np.array_equal(first.fill(0, 4), first.expected()[:4])


@pytest.mark.slow
def test_sessions_of_one_engine_compute_chunks_in_any_order(two, gridded):
    dataset, shared, (first, other) = two
    again = Stream(gridded, dataset, crop, 1, shared, first.engine)
    expected = [(stream, stream.expected()) for stream in (first, again, other)]
    rng = random.Random(0)
    for _ in range(200):
        stream, whole = rng.choice(expected)
        lo, hi = sorted(rng.sample(range(B + 1), 2))
        shared.enter((0, 0, lo), rng.randrange(2))
        assert np.array_equal(stream.fill(lo, hi), whole[lo:hi])


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["check_grid", "decode"])
def test_what_cannot_be_decoded_whole_is_left_to_each_stream(two, broken):
    """A damaged grid, or a file that is damaged where neither looks."""
    dataset, shared, streams = two

    def fail(*_, **__):
        raise SampleError("damaged")

    setattr(dataset, broken, fail)
    for behind, stream in zip((1, 0), streams, strict=True):
        shared.enter((0, 0, 0), behind)
        assert np.array_equal(stream.fill(0, 2), stream.expected()[:2])
    assert (shared.decodes, shared.found) == (0, 0)


def test_memory_is_used_again_for_the_next_rows(gridded):
    shared, listener = SharedSamples(SIZE), Decodes()
    with open_dataset(gridded) as dataset:
        (field,) = dataset.schema.fields
        for number in range(B):
            shared.enter((0, 0, number), 1)
            pixels = shared.read(dataset, field, number, listener)
            assert pixels.shape == (HEIGHT, WIDTH, 3)
            assert shared.read(dataset, field, (number + 1) % B, listener) is None, "no room"
            shared.enter((0, 0, number), 0)
            assert shared.read(dataset, field, number, listener) is pixels
    assert listener.count == B


def test_a_size_of_nothing_is_no_shared_sample(gridded):
    shared = SharedSamples(SIZE)
    shared.enter((0, 0, 0), 1)
    with open_dataset(gridded) as dataset:
        dataset.size = lambda field, number: (0, 9)
        assert shared.read(dataset, dataset.schema.fields[0], 0, RowListener()) is None


def test_memory_grows_to_what_the_largest_member_needs_and_goes_with_the_last_one(make_opened):
    forks = WorkerForks()
    first, second = (forks.open(make_opened(stream, size)) for stream, size in ((1, 64), (2, 256)))
    assert first is second
    assert len(first._memory) == 256
    forks.enter(work(1))
    forks.enter(work(9))  # of no fork
    forks.close(1)
    assert forks.open(make_opened(3, 64)) is first
    forks.close(2)
    forks.close(3)
    assert forks.open(make_opened(4, 64)) is not first
    assert forks.open(make_opened(5, 0, fork=0)) is None


@pytest.fixture
def make_opened(gridded):
    spec = make_spec(gridded, center.graph(), batch_size=B)

    def make(stream, size_bytes, fork=7):
        layout = slot_layout((), B)
        return OpenStream(
            stream, served("", spec, b""), layout, 0, fork=fork, fork_bytes=size_bytes
        )

    return make


def work(stream):
    return Work(1, stream, 0, 0, 1, 0, 1, 0, 64, 0, 4)


def test_bytes_of_a_row(gridded):
    with open_dataset(gridded) as dataset:
        bound = dataset.schema.fields[0].bound_bytes
        assert shared_bytes(dataset, ("image",)) == (bound + ALIGN, SIZE + ALIGN)
        assert shared_bytes(dataset, ("image",), 3) == (3 * (bound + ALIGN), 3 * (SIZE + ALIGN))
        assert shared_bytes(dataset, ()) == (0, 0)
