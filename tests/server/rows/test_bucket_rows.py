"""Rows with buckets: chunks, bad samples, rows that are mixed, shared memory, machine code."""

import numpy as np
import pytest
import skimage.data

from stoker import ops
from stoker.dataset import open_dataset, schema, write
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.order.selected import Selected
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, SampleError, UsageError
from stoker.protocol.size_buckets import Buckets
from stoker.protocol.slot_layout import Output
from stoker.server.rows.field_states import field_states
from stoker.server.rows.orders import stream_order
from stoker.server.rows.reference import make_spec
from stoker.server.rows.slot_filler import SlotFiller, StreamSource
from stoker.server.work.cuts import Share, room_for

SIZES = [(60, 60), (60, 100), (100, 60), (80, 80), (50, 100), (110, 50)] * 5
REQUEST = Buckets(max_area=48 * 48, divisor=16)


@pipeline
def fitted(sample):
    image = ops.fit_bucket(sample.image, crop="random")
    return {"image": ops.horizontal_flip(image), "label": sample.label}


@pipeline
def mixed(sample):
    image = ops.horizontal_flip(ops.fit_bucket(sample.image))
    return {"image": ops.mosaic(image, p=0.7), "label": sample.label}


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """30 photographs of six shapes, their numbers as labels."""
    dest = tmp_path_factory.mktemp("bucket-rows") / "shapes"
    photo = skimage.data.coffee()
    rows = [
        {"image": photo[n : n + h, 2 * n : 2 * n + w].copy(), "label": n}
        for n, (w, h) in enumerate(SIZES)
    ]
    write(dest, [schema.image(), schema.label()], rows)
    with open_dataset(dest) as dataset:
        yield dataset


class Faulty:
    """An engine that fails for some sample ids."""

    def __init__(self, engine, bad):
        self.plan, self._engine, self._bad = engine.plan, engine, bad

    def run(self, row, inputs, outputs):
        if row.id in self._bad:
            raise SampleError(f"id {row.id} is bad", id=row.id)
        self._engine.run(row, inputs, outputs)

    def record_of(self, index):
        return self._engine.record_of(index)


def computer_of(dataset, made=fitted, bad=(), arithmetic=PLAIN, **fields):
    graph = made.graph()
    spec = make_spec(dataset.path, graph, REQUEST, **{"batch_size": 4, "seed": 3, **fields})
    states = field_states(dataset)
    engine_of = compile_plan if arithmetic.is_compiled else Interpreter
    order = stream_order(
        spec, [dataset], [Selected(len(dataset))], buckets=REQUEST, arithmetic=arithmetic
    )

    def engine(size):
        made = engine_of(bind(graph, states, bucket=size), spec.freeze)
        return Faulty(made, set(bad)) if bad else made

    source = StreamSource(dataset, engine)
    return SlotFiller(spec, [source], order, Share(0, 1, spec.views), arithmetic=arithmetic)


def batch(computer, epoch, step, chunks=None):
    cut = computer.cut(epoch, step)
    slot = np.full(cut.layout.slot_bytes, 170, np.uint8)
    counts = [
        computer.fill(slot, epoch, step, low, high) for low, high in chunks or [(0, cut.rows)]
    ]
    arrays = {
        placed.name: slot[placed.offset :][: placed.size_bytes]
        .view(placed.dtype)
        .reshape(placed.shape)
        for placed in cut.layout.outputs
    }
    return arrays, counts


def epoch_of(computer, epoch):
    return [batch(computer, epoch, step)[0] for step in range(computer.order.steps(epoch))]


@pytest.mark.parametrize("made", [fitted, mixed], ids=["fitted", "mixed"])
def test_machine_code_gives_the_bytes_of_the_interpreter(shapes, made):
    slow, fast = (
        computer_of(shapes, made, arithmetic=arithmetic) for arithmetic in (PLAIN, COMPILED)
    )
    seen = set()
    for epoch in (0, 1):
        for one, other in zip(epoch_of(slow, epoch), epoch_of(fast, epoch), strict=True):
            assert one.keys() == other.keys()
            assert all(np.array_equal(one[name], other[name]) for name in one)
            seen.add(one["image"].shape[1:3])
    assert len(seen) >= 3


@pytest.mark.parametrize("made", [fitted, mixed], ids=["fitted", "mixed"])
def test_chunks_do_not_matter(shapes, made):
    computer = computer_of(shapes, made, views=2)
    for step in (0, 2):
        whole, _ = batch(computer, 0, step)
        parts, _ = batch(computer, 0, step, chunks=[(5, 8), (0, 2), (2, 5)])
        assert all(np.array_equal(whole[name], parts[name]) for name in whole)


def test_a_row_says_with_what_it_draws(shapes):
    computer = computer_of(shapes, views=2)
    carried = 0
    for epoch in range(3):
        for step, arrays in enumerate(epoch_of(computer, epoch)):
            rows = computer.order.rows(epoch, step, 0, 8)
            expected = np.stack([rows.epochs, rows.visits, rows.views], 1)
            assert np.array_equal(arrays["drawn_as"], expected)
            carried += int((rows.epochs < epoch).sum())
    assert carried


def test_what_is_carried_has_the_bytes_of_its_own_epoch(shapes):
    """A row depends on its id, its own epoch and its view, and on no batch."""
    for batch_size, other in ((4, 3), (2, 5)):
        found = {}
        for size in (batch_size, other):
            computer = computer_of(shapes, batch_size=size)
            for epoch in range(3):
                for arrays in epoch_of(computer, epoch):
                    for row, number in enumerate(arrays["index"].tolist()):
                        key = (number, *arrays["drawn_as"][row].tolist())
                        found.setdefault(key, []).append(arrays["image"][row].tobytes())
        both = [rows for rows in found.values() if len(rows) == 2]
        assert len(both) > 40
        assert all(one == two for one, two in both)


def test_a_substitute_has_the_buckets_size(shapes):
    good = computer_of(shapes)
    bad = int(batch(good, 0, 0)[0]["index"][2])
    computer = computer_of(shapes, bad=[bad], on_error="replace")
    arrays, (counts,) = batch(computer, 0, 0)
    whole, _ = batch(good, 0, 0)
    assert counts.replaced_rows == 1
    assert arrays["valid"].all()
    assert arrays["requested"][2] == bad != arrays["index"][2]
    bucket = computer.order.bucket(0, 0)
    assert computer.order.plan.locate(int(arrays["index"][2]))[0] == bucket
    position = int(computer.order.rows(0, 0, 2, 3).positions[0])
    assert arrays["drawn_as"][2].tolist() == [0, position + 1, 0]
    others = [0, 1, 3]
    assert np.array_equal(arrays["image"][others], whole["image"][others])
    masked, _ = batch(computer_of(shapes, bad=[bad], on_error="mask"), 0, 0)
    assert masked["valid"].tolist() == [True, True, False, True]
    assert not masked["drawn_as"][2].any()


def test_a_mosaic_draws_from_the_bucket(shapes):
    computer = computer_of(shapes, mixed)
    order = computer.order
    for step in range(order.steps(0)):
        bucket = order.bucket(0, step)
        assert order.peers(0, step) == order.plan.buckets[bucket].samples
        ids = [order.peer(0, step, number) for number in range(order.peers(0, step))]
        assert ids == order.plan.ids(bucket).tolist()


def test_buckets_share_the_memory_of_samples(shapes):
    computer = computer_of(shapes, arithmetic=COMPILED)
    epoch_of(computer, 0)
    made = [computer._made(number)[1] for number in range(len(computer.order.plan.buckets))]
    readers = [one._samples._parts[0]._inputs for one in made]
    assert len(readers) > 2
    assert len({id(reader._scratch.buffers["image"]) for reader in readers}) == 1


def test_every_rank_needs_a_row_of_every_batch(shapes):
    share = Share(rank=2, world_size=3, views=1)
    assert share.of(3) == (2, 1)
    with pytest.raises(UsageError, match="rank 0 of 3 has no row: a global batch has 2 rows"):
        Share(0, 3, 1).of(2)
    with pytest.raises(UsageError, match="a rank has at most 16777216 rows in a batch"):
        Share(0, 1, 2).of(2**24)


def test_room_is_that_of_the_largest():
    def outputs(shape, form="stack", varies=()):
        return (Output("image", "uint8", shape, "image", (), form, varies),)

    (room,) = room_for([outputs((64, 96, 3)), outputs((96, 64, 3)), outputs((80, 80, 3))])
    assert (room.shape, room.varies, room.form) == ((96, 96, 3), (0, 1), "stack")
    (same,) = room_for([outputs((64, 96, 3)), outputs((64, 96, 3))])
    assert (same.shape, same.varies) == ((64, 96, 3), ())
    (some,) = room_for([outputs((64, 3), "ragged", (0,)), outputs((96, 3), "ragged", (0,))])
    assert (some.shape, some.varies, some.form) == ((96, 3), (0,), "ragged")
    with pytest.raises(BuildError, match=r"the sides \[1\] of its rows are .* but those of form"):
        room_for([outputs((64, 96, 3), "list", (0,)), outputs((96, 64, 3), "list", (0,))])
