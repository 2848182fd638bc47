"""Rows: pads, views, policies and chunks, with the interpreter as engine."""

from pathlib import Path

import numpy as np
import pytest
from listeners import Heard

from stoker.dataset import open_dataset
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import SampleError
from stoker.rng.draws import integers
from stoker.rng.streams import make_key, stream_key
from stoker.server.rows.field_states import field_states
from stoker.server.rows.graphs import graph_from_bytes
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_rows import RowSource


class Faulty:
    """An engine that fails for some sample ids, as a pure function of the id."""

    def __init__(self, engine, bad):
        self.plan, self._engine, self._bad = engine.plan, engine, bad

    def run(self, row, inputs, outputs):
        if row.id in self._bad:
            for output in outputs:
                output[...] = 99
            raise SampleError(f"id {row.id} is bad", id=row.id)
        self._engine.run(row, inputs, outputs)


@pytest.fixture
def computer_of(small_dataset: Path):
    opened = open_dataset(small_dataset)

    def make(stream, bad=(), listener=None):
        plan = bind(graph_from_bytes(stream.served.sources[0].graph), field_states(opened))
        engine = Faulty(Interpreter(plan, stream.served.spec.freeze), set(bad))
        return RowComputer(
            stream.served.spec,
            [RowSource(opened, engine)],
            stream.layout,
            stream.first_row,
            listener=listener,
        )

    yield make
    opened.close()


def batch(computer, stream, step=0, epoch=0, chunks=None, crashed=()):
    slot = np.full(stream.layout.slot_bytes, 170, np.uint8)
    rows = stream.layout.rows
    counts = [
        computer.fill(slot, epoch, step, low, high, crashed=crashed)
        for low, high in (chunks or [(0, rows)])
    ]
    arrays = {
        placed.name: slot[placed.offset :][: placed.size_bytes]
        .view(placed.dtype)
        .reshape(placed.shape)
        for placed in stream.layout.outputs
    }
    return arrays, counts


def test_chunks_do_not_matter(stream_of, computer_of):
    stream = stream_of(batch_size=4, views=2, seed=3)
    whole, _ = batch(computer_of(stream), stream)
    for chunks in ([(3, 8), (0, 3)], [(n, n + 1) for n in (5, 0, 7, 2, 1, 3, 6, 4)]):
        parts, _ = batch(computer_of(stream), stream, chunks=chunks)
        for name, array in whole.items():
            assert np.array_equal(array, parts[name]), name


def test_a_listener_hears_where_the_rows_of_a_chunk_go(stream_of, computer_of):
    stream, heard = stream_of(batch_size=4, views=2), Heard()
    slot = np.zeros(stream.layout.slot_bytes, np.uint8)
    computer_of(stream, listener=heard).fill(slot, 0, 0, 3, 7)
    start, found = slot.ctypes.data, heard.arrays
    assert [array.shape for array in found] == [(4, *p.shape[1:]) for p in stream.layout.outputs]
    for array, placed in zip(found, stream.layout.outputs, strict=True):
        row_bytes = placed.size_bytes // placed.shape[0]
        assert array.ctypes.data - start == placed.offset + 3 * row_bytes


def test_views_are_of_one_sample_and_differ(stream_of, computer_of):
    stream = stream_of(batch_size=4, views=3)
    arrays, _ = batch(computer_of(stream), stream)
    ids = arrays["index"].reshape(4, 3)
    assert (ids == ids[:, :1]).all()
    views = arrays["image"].reshape(4, 3, -1)
    assert (views[:, 0] != views[:, 1]).any(axis=1).all()


def test_rows_beyond_the_last_sample_are_zero_and_invalid(stream_of, computer_of):
    stream = stream_of(batch_size=4, tail="pad", views=2)
    arrays, counts = batch(computer_of(stream), stream, step=2)
    assert arrays["valid"].tolist() == [True] * 4 + [False] * 4
    assert arrays["index"][4:].tolist() == arrays["requested"][4:].tolist() == [-1] * 4
    assert not arrays["image"][4:].any()
    assert not arrays["label"][4:].any()
    assert arrays["image"][:4].any()
    assert counts[0].rows == 8


def test_home_rows_are_counted(stream_of, computer_of):
    stream = stream_of(batch_size=4)
    computer = computer_of(stream)
    computer.home = range(5)
    arrays, counts = batch(computer, stream)
    assert counts[0].home_rows == int((arrays["index"] < 5).sum())


def test_policy_raise(stream_of, computer_of):
    stream = stream_of(batch_size=4)
    first = int(batch(computer_of(stream), stream)[0]["index"][0])
    with pytest.raises(SampleError, match=f"id {first} is bad"):
        batch(computer_of(stream, [first]), stream)


def test_policy_mask(stream_of, computer_of):
    good, _ = batch(computer_of(stream_of(batch_size=4)), stream_of(batch_size=4))
    bad = int(good["index"][1])
    stream = stream_of(batch_size=4, on_error="mask")
    arrays, counts = batch(computer_of(stream, [bad]), stream)
    assert arrays["valid"].tolist() == [True, False, True, True]
    assert arrays["index"].tolist() == [*good["index"][:1], -1, *good["index"][2:]]
    assert arrays["requested"].tolist() == good["index"].tolist()
    assert not arrays["image"][1].any(), "what the failed attempt wrote is still there"
    assert counts[0].invalid_rows == 1
    for row in (0, 2, 3):
        assert np.array_equal(arrays["image"][row], good["image"][row])


def test_policy_replace_follows_the_contract(stream_of, computer_of):
    """Attempt k is draw k of stoker/substitute, keyed by the bad id and position + 1."""
    stream = stream_of(batch_size=4, on_error="replace", seed=11)
    good, _ = batch(computer_of(stream), stream)
    bad, position = int(good["index"][2]), 2
    key = make_key(11, stream_key("stoker/substitute"), bad, 0, position + 1)
    drawn = [integers(key, attempt, 10) for attempt in range(1, 17)]
    also_bad = {bad, drawn[0]}
    expected = next(number for number in drawn if number not in also_bad)
    arrays, counts = batch(computer_of(stream, also_bad), stream)
    assert arrays["requested"].tolist() == good["index"].tolist()
    assert int(arrays["index"][2]) == int(arrays["label"][2]) == expected
    assert arrays["valid"].all()
    assert counts[0].replaced_rows >= 1
    again, _ = batch(computer_of(stream, also_bad), stream, chunks=[(2, 4), (0, 2)])
    assert np.array_equal(arrays["image"], again["image"])


def test_a_substitute_takes_its_own_draws(stream_of, computer_of):
    """In its own position of the same epoch, the substitute's crop is another one."""
    stream = stream_of(batch_size=10, on_error="replace", seed=11)
    good, _ = batch(computer_of(stream), stream)
    arrays, _ = batch(computer_of(stream, [int(good["index"][0])]), stream)
    substitute = int(arrays["index"][0])
    own = good["index"].tolist().index(substitute)
    assert not np.array_equal(arrays["image"][0], good["image"][own])


@pytest.mark.parametrize("on_error", ["raise", "replace", "mask"])
def test_samples_that_crash_are_replaced_untouched(stream_of, computer_of, on_error):
    """Whatever the policy, by the substitutes of bad samples; no such sample is one."""
    stream = stream_of(batch_size=4, on_error=on_error, seed=11)
    good, _ = batch(computer_of(stream), stream)
    crashes, position = int(good["index"][2]), 2
    key = make_key(11, stream_key("stoker/substitute"), crashes, 0, position + 1)
    drawn = [integers(key, attempt, 10) for attempt in range(1, 17)]
    crashed = {crashes, drawn[0]} - {int(number) for number in good["index"][[0, 1, 3]]}
    expected = next(number for number in drawn if number not in crashed)
    heard = Heard()
    computer = computer_of(stream, listener=heard)
    arrays, counts = batch(computer, stream, crashed=crashed)
    assert arrays["requested"].tolist() == good["index"].tolist()
    assert int(arrays["index"][2]) == int(arrays["label"][2]) == expected
    assert heard.samples == arrays["index"].tolist()
    assert arrays["valid"].all()
    assert counts[0].replaced_rows == 1
    assert not counts[0].bad
    again, _ = batch(computer, stream)
    assert np.array_equal(again["image"], good["image"]), "only where it is said"


@pytest.mark.parametrize(
    ("on_error", "bad", "crashed"), [("replace", range(10), ()), ("raise", (), range(10))]
)
def test_when_every_substitute_is_bad_or_crashes(stream_of, computer_of, on_error, bad, crashed):
    stream = stream_of(batch_size=4, on_error=on_error)
    with pytest.raises(SampleError, match=r"16 substitutes for sample \d+ failed too"):
        batch(computer_of(stream, bad), stream, crashed=crashed)
