"""EpochOrder: sequential, shuffled, block-shuffled, padded; O(1); clear about what it lacks."""

import tracemalloc

import numpy as np
import pytest

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.order.epoch import EpochOrder
from stoker.order.permutation import Permutation
from stoker.order.substitutes import substitute
from stoker.protocol.errors import UsageError, VersionError
from stoker.protocol.spec import Contracts

SHAPES = [(1, 1), (10, 3), (12, 3), (100, 7), (100, 100), (100, 1000), (97, 1), (1000, 64)]


def whole(order, epoch=0):
    return order.lookup_range(epoch, 0, order.rows)[0]


def test_without_shuffle_positions_are_ids(make_spec):
    order = EpochOrder(make_spec(rows=50, order={"shuffle": False}))
    ids, visits = order.lookup_range(3, 10, 20)
    assert ids.tolist() == list(range(10, 20))
    assert visits.tolist() == [0] * 10
    assert ids.dtype == visits.dtype == np.int64
    assert order.lookup(3, 49) == (49, 0)


def test_a_shuffle_is_the_permutation_of_seed_and_epoch(make_spec):
    order = EpochOrder(make_spec(rows=500, seed=77))
    for epoch in (0, 1, 2**40):
        expected = Permutation(500, 77, epoch).many(np.arange(500))
        assert np.array_equal(whole(order, epoch), expected)
        assert np.array_equal(np.sort(expected), np.arange(500))
    assert not np.array_equal(whole(order, 0), whole(order, 1))


@pytest.mark.parametrize(("rows", "block"), SHAPES)
def test_an_id_is_found_where_the_lookup_has_it(make_spec, rows, block):
    for fields in ({"shuffle": False}, {}, {"block": block}):
        order = EpochOrder(make_spec(rows=rows, batch=1, seed=9, order=fields))
        for epoch in (0, 3):
            found = [order.find(epoch, int(number)) for number in whole(order, epoch)]
            assert found == list(range(rows))


def test_what_cannot_be_found_is_named(make_spec):
    order = EpochOrder(make_spec(rows=10))
    for number in (-1, 10):
        with pytest.raises(UsageError, match=f"expected an id from 0 to 9, got {number}"):
            order.find(0, number)
    with pytest.raises(UsageError, match="epoch: expected one from 0, got -1"):
        order.find(-1, 3)


@pytest.mark.parametrize(("rows", "block"), SHAPES)
def test_a_block_shuffle_keeps_blocks_together(make_spec, rows, block):
    order = EpochOrder(make_spec(rows=rows, batch=1, order={"block": block}))
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
    order = EpochOrder(make_spec(rows=rows, seed=seed, order={"block": block}))
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
    order = EpochOrder(make_spec(rows=103, order={"block": 10}))
    places = {int(np.flatnonzero(whole(order, epoch) >= 100)[0]) for epoch in range(60)}
    assert places == {10 * slot for slot in range(11)}
    ids = whole(order)
    full = [tuple(ids[ids // 10 == b] % 10) for b in range(10)]
    assert len(set(full)) == 10


@pytest.mark.parametrize("fields", [{}, {"block": 7}, {"block": 300}, {"shuffle": False}])
@pytest.mark.parametrize("arithmetic", [PLAIN, pytest.param(COMPILED, marks=pytest.mark.slow)])
def test_lookups_agree_one_by_one_in_ranges_and_as_machine_code(make_spec, fields, arithmetic):
    spec = make_spec(rows=230, order=fields, seed=9)
    reference, order = EpochOrder(spec), EpochOrder(spec, arithmetic=arithmetic)
    ids = whole(reference, 4)
    assert [order.lookup(4, x)[0] for x in range(230)] == ids.tolist()
    for start in range(0, 230, 11):
        part = order.lookup_range(4, start, min(start + 17, 230))[0]
        assert np.array_equal(part, ids[start : start + 17])
    assert order.lookup_range(4, 230, 230)[0].size == 0


@pytest.mark.parametrize("order", [{}, {"block": 7}])
def test_a_seed_of_the_order_alone_decides_it(make_spec, order):
    """Positions and substitutes; the stream's seed is then that of its draws."""
    plain = make_spec(rows=90, seed=5, order=order)
    own = make_spec(rows=90, seed=6, order={**order, "seed": 5})
    other = make_spec(rows=90, seed=6, order=order)
    ids = [EpochOrder(spec).lookup_range(3, 0, 90)[0].tolist() for spec in (plain, own, other)]
    assert ids[0] == ids[1] != ids[2]
    drawn = [[substitute(s, 3, 4, 11, k) for k in range(1, 9)] for s in (plain, own, other)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_positions_beyond_the_dataset_are_pad_rows(make_spec):
    order = EpochOrder(make_spec(rows=10, batch=8, tail="pad"))
    assert order.limit == 16
    ids, visits = order.lookup_range(0, 8, 16)
    assert sorted(ids[:2].tolist() + whole(order)[:8].tolist()) == list(range(10))
    assert ids[2:].tolist() == [-1] * 6
    assert visits.tolist() == [0] * 8
    assert order.lookup(0, 15) == (-1, 0)
    assert order.lookup_range(0, 12, 16)[0].tolist() == [-1] * 4


@pytest.mark.parametrize("block", [None, 4096, 10**9])
def test_a_trillion_samples_cost_no_more_memory_than_a_thousand(make_spec, block):
    order = EpochOrder(make_spec(rows=10**12, batch=256, order={"block": block}))
    last = 10**12 - 256
    order.lookup_range(0, 0, 256)
    tracemalloc.start()
    try:
        ids, _ = order.lookup_range(10**6, last, 10**12)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(np.unique(ids)) == 256
    assert order.lookup(10**6, last) == (ids[0], 0)
    assert peak_bytes < 200_000


def test_what_this_version_lacks_is_named(make_spec):
    supported = "this version supports order.kind='full' and 'weighted', without order.subset or"
    digest = "a" * 32
    for spec, name in [
        (make_spec(order={"kind": "subset", "subset": digest}), f"order.subset='{digest}'"),
        (make_spec(order={"kind": "subset"}), "order.kind='subset'"),
        (make_spec(buckets=digest), f"buckets='{digest}'"),
    ]:
        with pytest.raises(UsageError) as caught:
            EpochOrder(spec)
        assert name in str(caught.value)
        assert supported in str(caught.value)
    for order in ({"block": 0}, {"block": 5, "shuffle": False}):
        with pytest.raises(
            UsageError, match=r"order\.block: expected a length from 1, with shuffle"
        ):
            EpochOrder(make_spec(order=order))


@pytest.mark.parametrize("name", ["random", "order"])
def test_a_spec_of_another_contract_is_refused(make_spec, name):
    spec = make_spec(contracts=Contracts(**{name: 2}))
    with pytest.raises(VersionError, match=f"contract '{name}': the spec has version 2"):
        EpochOrder(spec)


def test_positions_and_epochs_out_of_range_are_named(make_spec):
    order = EpochOrder(make_spec(rows=10, batch=8))
    for start, stop in [(-1, 2), (9, 11), (5, 4)]:
        with pytest.raises(UsageError, match=rf"in \[0, 10\), got \[{start}, {stop}\)"):
            order.lookup_range(0, start, stop)
    with pytest.raises(UsageError, match=r"in \[0, 10\), got \[10, 11\)"):
        order.lookup(0, 10)
    with pytest.raises(UsageError, match="epoch: expected one from 0, got -1"):
        order.lookup(-1, 0)
