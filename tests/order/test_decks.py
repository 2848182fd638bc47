"""Decks of one dataset: sequential, shuffled, block-shuffled, padded; O(1); clear about limits."""

import tracemalloc

import numpy as np
import pytest

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.order.compose import dataset_order
from stoker.order.deck import Deck
from stoker.order.permutation import Permutation

SHAPES = [(1, 1), (10, 3), (12, 3), (100, 7), (100, 100), (100, 1000), (97, 1), (1000, 64)]


def deck_of(spec, **given) -> Deck:
    return dataset_order(spec, **given).rows_of[0]


def whole(deck, epoch=0):
    return deck.lookup(epoch, 0, deck.rows).ids


def test_without_shuffle_positions_are_ids(make_spec):
    order = deck_of(make_spec(rows=50, order={"shuffle": False}))
    ids, visits, epochs, positions = order.lookup(3, 10, 20)
    assert ids.tolist() == list(range(10, 20))
    assert visits.tolist() == [0] * 10
    assert ids.dtype == visits.dtype == np.int64
    assert epochs.tolist() == [3] * 10
    assert positions.tolist() == list(range(10, 20))


def test_a_shuffle_is_the_permutation_of_seed_and_epoch(make_spec):
    order = deck_of(make_spec(rows=500, seed=77))
    for epoch in (0, 1, 2**40):
        expected = Permutation(500, 77, epoch).many(np.arange(500))
        assert np.array_equal(whole(order, epoch), expected)
        assert np.array_equal(np.sort(expected), np.arange(500))
    assert not np.array_equal(whole(order, 0), whole(order, 1))


@pytest.mark.parametrize(("rows", "block"), SHAPES)
def test_an_id_is_found_where_the_lookup_has_it(make_spec, rows, block):
    for fields in ({"shuffle": False}, {}, {"block": block}):
        order = deck_of(make_spec(rows=rows, batch=1, seed=9, order=fields))
        for epoch in (0, 3):
            found = [order.find(epoch, int(number)) for number in whole(order, epoch)]
            assert found == list(range(rows))


@pytest.mark.parametrize(("rows", "block"), SHAPES)
def test_a_block_shuffle_keeps_blocks_together(make_spec, rows, block):
    order = deck_of(make_spec(rows=rows, batch=1, order={"block": block}))
    for epoch in range(3):
        ids = whole(order, epoch)
        assert np.array_equal(np.sort(ids), np.arange(rows))
        blocks = ids // block
        starts = np.flatnonzero(np.diff(blocks, prepend=-1))
        # Each block comes in one piece: as many pieces as blocks.
        assert len(starts) == -(-rows // block)
        assert len(np.unique(blocks)) == len(starts)


def test_blocks_and_the_rows_inside_follow_their_permutations(make_spec):
    rows, block, seed = 103, 10, 5
    order = deck_of(make_spec(rows=rows, seed=seed, order={"block": block}))
    for epoch in range(20):
        outer = Permutation(11, seed, epoch)
        expected = []
        for slot in range(11):
            number = outer(slot)
            size = min(block, rows - number * block)
            inner = Permutation(size, seed, epoch, part=number, level=1)
            expected += [number * block + inner(x) for x in range(size)]
        assert whole(order, epoch).tolist() == expected


@pytest.mark.slow
def test_the_short_block_moves_and_blocks_differ_inside(make_spec):
    order = deck_of(make_spec(rows=103, order={"block": 10}))
    places = {int(np.flatnonzero(whole(order, epoch) >= 100)[0]) for epoch in range(60)}
    assert places == {10 * slot for slot in range(11)}
    ids = whole(order)
    full = [tuple(ids[ids // 10 == b] % 10) for b in range(10)]
    assert len(set(full)) == 10


@pytest.mark.parametrize("fields", [{}, {"block": 7}, {"block": 300}, {"shuffle": False}])
@pytest.mark.parametrize("arithmetic", [PLAIN, pytest.param(COMPILED, marks=pytest.mark.slow)])
def test_lookups_agree_one_by_one_in_ranges_and_as_machine_code(make_spec, fields, arithmetic):
    spec = make_spec(rows=230, order=fields, seed=9)
    reference, order = deck_of(spec), deck_of(spec, arithmetic=arithmetic)
    ids = whole(reference, 4)
    assert [int(order.lookup(4, x, x + 1).ids[0]) for x in range(230)] == ids.tolist()
    for start in range(0, 230, 11):
        part = order.lookup(4, start, min(start + 17, 230)).ids
        assert np.array_equal(part, ids[start : start + 17])
    assert order.lookup(4, 230, 230).ids.size == 0
    beyond = order.lookup(4, 200, 700)
    joined = np.concatenate([whole(reference, epoch) for epoch in (4, 5, 6, 7)])
    assert np.array_equal(beyond.ids, joined[200:700])
    assert np.array_equal(beyond.epochs * 230 + beyond.positions, 4 * 230 + np.arange(200, 700))


@pytest.mark.parametrize("order", [{}, {"block": 7}])
def test_a_seed_of_the_order_alone_decides_it(make_spec, order):
    """Positions and substitutes; the stream's seed is then that of its draws."""
    plain = make_spec(rows=90, seed=5, order=order)
    own = make_spec(rows=90, seed=6, order={**order, "seed": 5})
    other = make_spec(rows=90, seed=6, order=order)
    decks = [deck_of(spec) for spec in (plain, own, other)]
    ids = [whole(deck, 3).tolist() for deck in decks]
    assert ids[0] == ids[1] != ids[2]
    drawn = [[deck.substitute(3, 4, 11, k) for k in range(1, 9)] for deck in decks]
    assert drawn[0] == drawn[1] != drawn[2]


def test_positions_beyond_the_dataset_are_pad_rows(make_spec):
    order = dataset_order(make_spec(rows=10, batch=8, tail="pad"))
    first, last = (order.rows(0, step, 0, 8) for step in range(2))
    assert sorted([*first.ids.tolist(), *last.ids[:2].tolist()]) == list(range(10))
    assert last.ids[2:].tolist() == [-1] * 6
    assert last.visits.tolist() == [0] * 8
    assert last.positions.tolist() == list(range(8, 16))
    assert order.rows(0, 1, 4, 8).ids.tolist() == [-1] * 4


@pytest.mark.parametrize("block", [None, 4096, 10**9])
def test_a_trillion_samples_cost_no_more_memory_than_a_thousand(make_spec, block):
    order = deck_of(make_spec(rows=10**12, batch=256, order={"block": block}))
    last = 10**12 - 256
    order.lookup(0, 0, 256)
    tracemalloc.start()
    try:
        ids = order.lookup(10**6, last, 10**12).ids
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(np.unique(ids)) == 256
    assert order.find(10**6, int(ids[0])) == last
    assert peak_bytes < 200_000


def test_a_sample_that_is_dropped_has_no_place(make_spec):
    order = dataset_order(make_spec(rows=10, batch=8, views=2))
    assert order.rows(0, 0, 5, 5).ids.size == 0
    ids = whole(order.rows_of[0])
    assert order.find(0, int(ids[7])) == (None, 7, (0, 0))
    assert order.find(0, int(ids[8])).place is None
