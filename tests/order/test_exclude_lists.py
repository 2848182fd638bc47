"""Streams without some samples: an oracle that keeps the ids that are left in a list."""

import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.order.buckets.bucket_plan import make_plan
from stoker.order.compose import dataset_order
from stoker.order.rank_rows import rank_rows, steps_per_epoch
from stoker.order.select import Remaining
from stoker.order.substitutes import substitute_place
from stoker.protocol.errors import UsageError
from stoker.protocol.exclude import Excluded
from stoker.protocol.size_buckets import Buckets
from stoker.protocol.spec import MAX_EXCLUDED, OrderSpec, StreamSpec


def spec_of(rows: int, excluded: Excluded, batch: int = 4, **fields: object) -> StreamSpec:
    return StreamSpec(
        dataset="content:" + "0" * 32, dataset_rows=rows, pipeline="0" * 32, batch_size=batch,
        exclude=excluded.digest, **fields,
    )  # fmt: skip


@st.composite
def lists(draw, least: int = 1):
    """(rows of a dataset, ids of it, at least `least` of them left)."""
    rows = draw(st.integers(least + 1, 70))
    gone = draw(st.sets(st.integers(0, rows - 1), max_size=rows - least))
    return rows, sorted(gone)


@given(case=lists())
def test_places_count_what_is_left(case):
    rows, gone = case
    left = [number for number in range(rows) if number not in gone]
    remaining = Remaining(rows, Excluded(gone))
    assert remaining.count == len(left)
    assert remaining.ids(np.arange(len(left))).tolist() == left
    assert [remaining.id(place) for place in range(len(left))] == left
    assert [remaining.place(number) for number in left] == list(range(len(left)))
    for number in gone:
        assert remaining.place(number) is None


KINDS = [OrderSpec(), OrderSpec(shuffle=False), OrderSpec(block=7)]


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    case=lists(),
    kind=st.sampled_from(KINDS),
    batch=st.integers(1, 9),
    views=st.integers(1, 3),
    seed=st.integers(0, 2**64 - 1),
    arithmetic=st.sampled_from((PLAIN, COMPILED)),
)
def test_the_order_is_that_of_a_smaller_dataset(case, kind, batch, views, seed, arithmetic):
    """Places of the samples that are left are arranged as the ids of a dataset of that size."""
    rows, gone = case
    left = [number for number in range(rows) if number not in gone]
    fields = {"order": kind, "seed": seed, "views": views, "tail": "pad"}
    excluded = Excluded(gone)
    spec = spec_of(rows, excluded, batch, **fields)
    order = dataset_order(spec, excluded=excluded, arithmetic=arithmetic)
    smaller = spec_of(len(left), Excluded(()), batch, **fields)
    plain = dataset_order(smaller)
    assert order.steps(0) == plain.steps(0) == steps_per_epoch(spec) == -(-len(left) // batch)
    for epoch in (0, 3):
        seen = []
        for step in range(order.steps(epoch)):
            found = order.rows(epoch, step, 0, batch * views)
            of_smaller = plain.rows(epoch, step, 0, batch * views)
            assert found.ids.tolist() == [left[p] if p >= 0 else -1 for p in of_smaller.ids]
            assert np.array_equal(found.positions, of_smaller.positions)
            cuts = [rank_rows(batch * views, rank, 2) for rank in range(2)]
            parts = [order.rows(epoch, step, *cut).ids for cut in cuts]
            assert np.array_equal(np.concatenate(parts), found.ids)
            seen += found.ids[::views].tolist()
        assert sorted(number for number in seen if number >= 0) == left
        for number in left:
            position = order.find(epoch, number).position
            assert seen[position] == number
    with_list = {order.substitute(1, 0, left[0], attempt) for attempt in range(1, 17)}
    assert {number for number, _ in with_list} <= set(left)
    places = [substitute_place(seed, 1, 0, left[0], k, len(left)) for k in range(1, 17)]
    assert with_list == {(left[place], 1) for place in places}
    assert order.peers(0, 0) == len(left)
    assert [order.peer(0, 0, number) for number in range(len(left))] == left
    for number in gone:
        for visit in (0, 1):
            with pytest.raises(UsageError, match=f"the stream leaves out sample {number}"):
                order.find(0, number, visit)


@pytest.mark.parametrize(
    ("leftovers", "resize"), [("carry", True), ("drop", True), ("merge", True), ("carry", False)]
)
def test_a_plan_is_that_of_a_smaller_dataset(leftovers, resize):
    rng = random.Random(f"{leftovers}{resize}")
    shapes = [(64 * rng.randrange(1, 6), 64 * rng.randrange(1, 6)) for _ in range(7)]
    sizes = np.array([rng.choice(shapes) for _ in range(90)], np.int32)
    gone = sorted(rng.sample(range(90), 25))
    sizes[gone[3]] = (1, 60000)  # such an image would be refused, or be the largest: it has no say
    left = [number for number in range(90) if number not in gone]
    request = Buckets(
        max_area=128 * 128 if resize else None, divisor=64, max_side=512 if resize else None,
        resize=resize, leftovers=leftovers, constant="pixels",
    )  # fmt: skip
    blocks = [tuple(part.T) for part in np.split(sizes, [31, 32, 70])]
    plan = make_plan(blocks, request, 4, np.array(gone))
    smaller = make_plan([tuple(sizes[left].T)], request, 4)
    assert plan.buckets == smaller.buckets
    assert plan.sizes == smaller.sizes
    assert plan.members.tolist() == [left[place] for place in smaller.members]
    assert plan.merged().tolist() == [left[place] for place in smaller.merged()]
    assert plan.excluded_ids().tolist() == gone
    assert plan.digest != smaller.digest
    excluded = Excluded(gone)
    tail = "drop"
    orders = [
        dataset_order(
            spec_of(90, excluded, 4, tail=tail, buckets=plan.digest), excluded, plan=plan
        ),
        dataset_order(
            spec_of(65, Excluded(()), 4, tail=tail, buckets=smaller.digest), plan=smaller
        ),
    ]
    for epoch in range(3):
        ours, theirs = (
            [
                (
                    one.bucket(epoch, step),
                    one.rows(epoch, step, 0, one.positions(epoch, step)).ids.tolist(),
                )
                for step in range(one.steps(epoch))
            ]
            for one in orders
        )
        assert ours == [(b, [left[place] for place in ids]) for b, ids in theirs]


def test_a_long_list_costs_what_it_weighs():
    """The longest list, of the largest dataset: look-ups stay logarithmic, memory in the list."""
    rows = 2**48
    excluded = Excluded(range(0, MAX_EXCLUDED * 2**20, 2**20))
    spec = spec_of(rows, excluded, 256)
    tracemalloc.start()
    try:
        order = dataset_order(spec, excluded=excluded)
        ids = order.rows(5, 10**9, 0, 256).ids
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(set(ids.tolist())) == 256
    assert not set(ids.tolist()) & set(excluded.ids.tolist())
    assert peak < 8 * 8 * MAX_EXCLUDED
    assert order.find(5, int(ids[7])).place == (5, 10**9)
