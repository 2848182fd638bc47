"""Rows that are mixed: groups of the global batch, however ranks and chunks are cut."""

import numpy as np
import pytest
from listeners import Heard

from stoker import ops
from stoker.client.batches.batch_params import read_params
from stoker.dataset import open_dataset
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.order.compose import dataset_order
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.guarded import Guarded
from stoker.pipeline.engine.drawing import drawn_by, row_bytes
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.draw_records import params_output
from stoker.protocol.errors import SampleError
from stoker.protocol.slot_layout import slot_layout
from stoker.protocol.spec import OrderSpec, StreamSpec
from stoker.server.rows.field_states import field_states
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_rows import RowSource

SAMPLES = 10


@pipeline
def mixed(sample):
    image = ops.random_resized_crop(sample.image, size=16)
    label = ops.one_hot(sample.label, classes=SAMPLES)
    image, label = ops.mixup(image, label, alpha=1.0)
    return {"image": image, "label": label, "number": sample.label}


@pipeline
def mosaic(sample):
    image = ops.horizontal_flip(ops.random_resized_crop(sample.image, size=16))
    return {"image": ops.mosaic(image), "number": sample.label}


class Counted:
    """An engine that fails for some ids, and counts the rows that it computes by id."""

    def __init__(self, engine, bad=()):
        self.plan, self.record_of = engine.plan, engine.record_of
        self._engine, self._bad = engine, bad
        self.ids = []

    def run(self, row, inputs, outputs):
        self.ids.append(row.id)
        if row.id in self._bad:
            raise SampleError(f"id {row.id} is bad", id=row.id)
        self._engine.run(row, inputs, outputs)


class Stream:
    """A stream over the small dataset, and how to fill its batches."""

    def __init__(self, dataset, made, **fields):
        self.dataset = dataset
        self.plan = bind(made.graph(), field_states(dataset))
        self.made = made
        self.spec = StreamSpec(
            dataset=dataset.fingerprint,
            dataset_rows=len(dataset),
            pipeline=made.pipeline_id,
            **{"batch_size": 10, "seed": 3, **fields},
        )
        self.rows = self.spec.batch_size * self.spec.views

    def fill(self, chunks=None, step=0, bad=(), params=False, machine=None, told=None):
        """Outputs of a step, by name, and the ids in the order of computing."""
        make = machine or Interpreter
        engine = Counted(make(self.plan, self.spec.freeze), bad)
        more = params_output(row_bytes(self.plan)) if params else ()
        layout = slot_layout(self.plan.delivered + more, self.rows)
        computer = RowComputer(
            self.spec,
            [RowSource(self.dataset, engine)],
            layout,
            arithmetic=PLAIN if machine is None else COMPILED,
            params=params,
            listener=Heard(told),
        )
        slot = np.full(layout.slot_bytes, 170, np.uint8)
        self.counts = [
            computer.fill(slot, 0, step, low, high) for low, high in chunks or [(0, self.rows)]
        ]
        arrays = {
            placed.name: slot[placed.offset :][: placed.size_bytes]
            .view(placed.dtype)
            .reshape(placed.shape)
            for placed in layout.outputs
        }
        return arrays, engine.ids


@pytest.fixture
def stream(small_dataset):
    opened = open_dataset(small_dataset)
    yield lambda made=mixed, **fields: Stream(opened, made, **fields)
    opened.close()


def samples_of(dataset):
    return [
        {"image": np.array(dataset.read("image", n)), "label": int(dataset.read("label", n))}
        for n in range(len(dataset))
    ]


def shown_most(arrays):
    """Place of the first group whose sample most other rows show."""
    ids = arrays["index"][:8].tolist()
    return max(range(8), key=lambda place: np.count_nonzero(arrays["label"][:, ids[place]]))


@pytest.mark.parametrize("made", [mixed, mosaic], ids=["mixup", "mosaic"])
def test_rows_are_those_of_a_batch_in_process(stream, made):
    a = stream(made)
    arrays, _ = a.fill()
    ids = arrays["index"].tolist()
    assert ids == dataset_order(a.spec).rows_of[0].lookup(0, 0, 10).ids.tolist()
    expected = made.batch(samples_of(a.dataset), ids, seed=3)
    for place, row in enumerate(expected):
        assert np.array_equal(arrays["image"][place], row["image"])
        if made is mixed:
            assert np.array_equal(arrays["label"][place], row["label"])
    assert arrays["number"].tolist() == ids


@pytest.mark.parametrize("made", [mixed, mosaic], ids=["mixup", "mosaic"])
@pytest.mark.parametrize("views", [1, 3])
def test_chunks_do_not_matter(stream, made, views):
    a = stream(made, views=views)
    whole, ids = a.fill()
    if made is mixed:
        assert len(ids) == a.rows, "each row is computed once"
    rows = list(range(a.rows))
    np.random.default_rng(views).shuffle(rows)
    for chunks in ([(3, a.rows), (0, 3)], [(n, n + 1) for n in rows], [(0, 8), (8, a.rows)]):
        parts, _ = a.fill(chunks)
        for name, array in whole.items():
            assert np.array_equal(array, parts[name]), name


def test_chunks_of_whole_groups_compute_each_row_once(stream):
    a = stream()
    _, once = a.fill([(8, 10), (0, 8)])
    assert sorted(once) == sorted(set(once))
    _, cut = a.fill([(0, 4), (4, 10)])
    assert len(cut) > 10


def test_machine_code_gives_the_same_bytes(stream):
    """Also under guard, where a draw that leaves a field of its record unwritten is found."""
    for made in (mixed, mosaic):
        a = stream(made)
        plain, _ = a.fill(params=True)
        for make in (compile_plan, Guarded):
            fast, _ = a.fill(params=True, machine=make)
            for name, array in plain.items():
                assert array.tobytes() == fast[name].tobytes(), name


def test_a_row_that_pads_is_no_partner(stream):
    a = stream(batch_size=4, tail="pad", order=OrderSpec(shuffle=False))
    arrays, _ = a.fill(step=2)
    assert arrays["valid"].tolist() == [True, True, False, False]
    assert not arrays["image"][2:].any()
    assert not arrays["label"][2:].any()
    drawn = [ops.Mixup(1.0).sample(0, 0, seed=3, id=n) for n in (8, 9)]
    others = [(place + 1 + d["offset"] % 3) % 4 for place, d in enumerate(drawn)]
    for place, (number, other) in enumerate(zip((8, 9), others, strict=True)):
        label = np.zeros(SAMPLES)
        label[number] = drawn[place]["lam"] if other < 2 else 1.0
        if other < 2:
            label[8 + other] = 1 - drawn[place]["lam"]
        assert np.allclose(arrays["label"][place], label, atol=1e-6)


def test_a_masked_sample_is_no_partner_and_is_not_mixed(stream):
    whole, _ = stream().fill(params=True)
    spoilt = shown_most(whole)
    bad = int(whole["index"][spoilt])
    a = stream(on_error="mask")
    arrays, _ = a.fill(bad=[bad], params=True)
    assert np.flatnonzero(~arrays["valid"]).tolist() == [spoilt]
    assert not arrays["label"][spoilt].any()
    assert sum(count.invalid_rows for count in a.counts) == 1
    assert not arrays["label"][:, bad].any(), "no row shows any of it"
    with_it = [p for p in range(10) if p != spoilt and whole["label"][p, bad] > 0]
    assert with_it, "it was a partner"
    for place in with_it:
        number = int(whole["index"][place])
        assert arrays["label"][place].tolist() == np.eye(SAMPLES)[number].tolist()
    alike = [p for p in range(10) if p != spoilt and p not in with_it]
    assert all(np.array_equal(arrays["image"][p], whole["image"][p]) for p in alike)


def test_a_substitute_is_mixed_and_is_a_partner(stream):
    whole, _ = stream().fill()
    spoilt = shown_most(whole)
    bad = int(whole["index"][spoilt])
    a = stream(on_error="replace")
    arrays, _ = a.fill(bad=[bad])
    number, visit = dataset_order(a.spec).substitute(0, spoilt, bad, 1)
    assert number != bad
    assert arrays["index"][spoilt] == number
    assert sum(count.replaced_rows for count in a.counts) == 1
    drawn = ops.Mixup(1.0).sample(0, 0, seed=3, id=number, visit=visit)
    other = int(arrays["index"][(spoilt + 1 + drawn["offset"] % 7) % 8])
    expected = np.zeros(SAMPLES)
    expected[number] += drawn["lam"]
    expected[other] += 1 - drawn["lam"]
    assert np.allclose(arrays["label"][spoilt], expected, atol=1e-6)
    partners = [p for p in range(8) if p != spoilt and whole["label"][p, bad] > 0]
    assert partners
    assert all(arrays["label"][p, number] > 0 for p in partners)


def test_a_bad_partner_raises_and_a_bad_row_elsewhere_does_not(stream):
    a = stream()
    with pytest.raises(SampleError, match="is bad"):
        a.fill(bad=[int(a.fill()[0]["index"][2])])
    last = int(a.fill()[0]["index"][9])
    a.fill([(0, 8)], bad=[last])


def test_a_bad_tile_follows_the_policy(stream):
    a = stream(mosaic, batch_size=1, order=OrderSpec(shuffle=False))
    words = ops.Mosaic().sample(0, 0, seed=3, id=0)["words"]
    tiles = [word * SAMPLES >> 64 for word in words]
    bad = next(number for number in tiles if number != 0)
    whole, ids = a.fill()
    assert ids == [0, *tiles]
    with pytest.raises(SampleError, match=f"id {bad} is bad"):
        a.fill(bad=[bad])
    masked, _ = stream(mosaic, batch_size=1, order=OrderSpec(shuffle=False), on_error="mask").fill(
        bad=[bad]
    )
    alone = mosaic.batch(samples_of(a.dataset), [0], seed=3, freeze=None)
    assert np.array_equal(whole["image"][0], alone[0]["image"])
    assert masked["valid"].tolist() == [True]
    assert not np.array_equal(masked["image"][0], whole["image"][0])
    b = stream(mosaic, batch_size=1, order=OrderSpec(shuffle=False), on_error="replace")
    replaced, ids = b.fill(bad=[bad])
    number, _ = dataset_order(b.spec).substitute(0, 0, bad, 1)
    assert ids[: tiles.index(bad) + 3][-1] == number
    assert b.counts[0].replaced_rows == 0, "the row itself was not replaced"
    assert replaced["valid"].tolist() == [True]


def test_params_name_the_partner_and_what_was_done(stream):
    a = stream()
    arrays, _ = a.fill(params=True)
    found = read_params(drawn_by(a.plan), arrays["params"])["mixup"]
    ids = arrays["index"].tolist()
    for place, number in enumerate(ids):
        record = {name: found[name][place] for name in ("lam", "partner", "applied")}
        expected = np.zeros(SAMPLES)
        expected[number] += record["lam"]
        expected[int(record["partner"])] += 1 - record["lam"]
        assert record["applied"] == 1
        assert np.allclose(arrays["label"][place], expected, atol=1e-6)
        assert ids.index(int(record["partner"])) // 8 == place // 8
    plain, _ = a.fill()
    assert np.array_equal(plain["image"], arrays["image"])


def test_every_row_that_is_computed_is_told(stream):
    a, told = stream(), []
    _, ids = a.fill([(3, 4)], told=told)
    order = dataset_order(a.spec).rows_of[0].lookup(0, 0, 10).ids.tolist()
    assert [order[row] for row in told] == ids
    assert told[0] == 3
    assert len(told) == 2
