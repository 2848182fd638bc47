"""The order of batches with buckets: an oracle that keeps lists, ranks, places, accounts."""

import random
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.order.bucket_leftovers import account, carried_ids, dropped_ids
from stoker.order.buckets.bucket_plan import make_plan
from stoker.order.compose import dataset_order
from stoker.order.permutation import Permutation
from stoker.order.rank_rows import rank_rows
from stoker.order.stream_order import StreamOrder
from stoker.protocol.errors import UsageError
from stoker.protocol.size_buckets import Buckets

EPOCHS = 5


def pictures(rng: random.Random, count: int, shapes: int) -> list[tuple[int, int]]:
    some = [(rng.randrange(40, 400), rng.randrange(40, 400)) for _ in range(shapes)]
    return [rng.choice(some) for _ in range(count)]


def plan_of(sizes, request, batch):
    widths, heights = np.array(sizes, np.int32).reshape(-1, 2).T
    return make_plan([(widths, heights)], request, batch)


def make_order(make_spec, sizes, request, batch, arithmetic=PLAIN, **fields) -> StreamOrder:
    plan = plan_of(sizes, request, batch)
    spec = make_spec(rows=len(sizes), batch=batch, buckets=plan.digest, **fields)
    return dataset_order(spec, plan=plan, arithmetic=arithmetic)


def by_lists(order, seed, tail, shuffle):
    """Every batch of some epochs, from lists alone: (epoch, step) -> [(id, its epoch)]."""
    batches, waiting = {}, defaultdict(list)
    for epoch in range(EPOCHS):
        ready = []
        for number, bucket in enumerate(order.plan.buckets):
            ids = [int(i) for i in order.plan.ids(number)]
            part = bucket.width * 2**16 + bucket.height
            turn = Permutation(len(ids), seed, epoch, part=part, level=2)
            queue = waiting[number]
            queue += [(ids[turn(x)] if shuffle else ids[x], epoch) for x in range(len(ids))]
            while len(queue) >= bucket.positions:
                ready.append(queue[: bucket.positions])
                del queue[: bucket.positions]
            if tail == "pad" and queue:
                ready.append(queue + [(-1, epoch)] * (bucket.positions - len(queue)))
            if tail != "carry":
                queue.clear()
        turn = Permutation(len(ready), seed, epoch, level=3)
        for step in range(len(ready)):
            batches[epoch, step] = ready[turn(step) if shuffle else step]
    return batches


cases = st.tuples(
    st.integers(0, 10**6),
    st.integers(1, 60),
    st.integers(1, 6),
    st.integers(1, 9),
    st.sampled_from(["carry", "drop", "pad"]),
    st.booleans(),
    st.sampled_from(["rows", "pixels"]),
)


def order_of_case(make_spec, case, arithmetic=PLAIN):
    seed, count, shapes, batch, tail, shuffle, constant = case
    request = Buckets(
        max_area=128 * 128, divisor=16, constant=constant,
        leftovers="drop" if tail == "drop" else "carry",
    )  # fmt: skip
    sizes = pictures(random.Random(seed), count, shapes)
    try:
        return make_order(
            make_spec, sizes, request, batch, seed=seed, order={"shuffle": shuffle},
            tail="pad" if tail == "pad" else "drop", arithmetic=arithmetic,
        )  # fmt: skip
    except UsageError as error:
        if "a batch is larger than every bucket" not in error.message:
            raise
        reject()


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(case=cases, views=st.integers(1, 3))
def test_batches_are_those_of_lists(case, views):
    make_spec = spec_maker()
    order = order_of_case(
        lambda **fields: make_spec(views=views, **fields), case, arithmetic=COMPILED
    )
    seed, _, _, _, tail, shuffle, _ = case
    expected = by_lists(order, seed, tail, shuffle)
    steps = [order.steps(epoch) for epoch in range(EPOCHS)]
    assert list(expected) == [(e, s) for e in range(EPOCHS) for s in range(steps[e])]
    assert min(steps) >= 1
    for (epoch, step), rows in expected.items():
        count = len(rows)
        bucket = order.plan.buckets[order.bucket(epoch, step)]
        assert order.positions(epoch, step) == count == bucket.positions
        found = order.rows(epoch, step, 0, count * views)
        got = list(zip(found.ids.tolist(), found.epochs.tolist(), strict=True))
        assert got == [row for row in rows for _ in range(views)]
        assert found.views.tolist() == list(range(views)) * count
        assert all(sizes_agree(order, number, bucket) for number, _ in rows)
        for ranks in (2, 3):
            cuts = [rank_rows(count * views, rank, ranks) for rank in range(ranks)]
            parts = [order.rows(epoch, step, *cut).ids for cut in cuts]
            assert np.array_equal(np.concatenate(parts), found.ids)


def sizes_agree(order, number, bucket) -> bool:
    if number < 0:
        return True
    return order.plan.sizes[order.plan.own[number]] == (bucket.width, bucket.height)


def spec_maker():
    from stoker.protocol.spec import OrderSpec, StreamSpec  # noqa: PLC0415 - as in conftest

    def make(rows, batch, order=None, **fields):
        return StreamSpec(
            dataset="content:" + "0" * 32, dataset_rows=rows, pipeline="0" * 32,
            batch_size=batch, order=OrderSpec(**(order or {})), **fields,
        )  # fmt: skip

    return make


def delivered_and_found(order, epoch) -> Counter:
    """Count the ids of an epoch; every row is found where it was."""
    delivered: Counter = Counter()
    for step in range(order.steps(epoch)):
        rows = order.rows(epoch, step, 0, order.positions(epoch, step))
        bucket = order.bucket(epoch, step)
        for number, own, position in zip(rows.ids, rows.epochs, rows.positions, strict=True):
            if number >= 0:
                delivered[int(number)] += 1
                found = order.find(int(own), int(number))
                assert found == (bucket, position, (epoch, step))
    return delivered


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(case=cases)
def test_every_row_is_accounted_for_and_found(case):
    order = order_of_case(spec_maker(), case)
    tail = case[4]
    seen, before = Counter(), Counter()
    for epoch in range(EPOCHS):
        delivered = delivered_and_found(order, epoch)
        seen += delivered
        carried, dropped = carried_ids(order, epoch), dropped_ids(order, epoch)
        every = Counter(range(len(order.plan.members)))
        for bucket in range(len(order.plan.buckets)):
            assert order.plan.ids(bucket).tolist() == sorted(order.plan.ids(bucket).tolist())
        gone = Counter(dropped.tolist()) + Counter(carried.tolist())
        assert delivered + gone == every + before
        before = Counter(carried.tolist())
        found = account(order, epoch)
        assert found.delivered == delivered.total()
        assert (found.carried_out, found.dropped) == (len(carried), len(dropped))
        assert sum(part.batches for part in found.buckets) == found.steps == order.steps(epoch)
        for part in found.buckets:
            assert part.carried_in + part.samples == (
                part.delivered + part.carried_out + part.dropped
            )
        if tail == "carry":
            assert not len(dropped)
        if tail == "drop" and len(dropped):
            assert order.find(epoch, int(dropped[0])).place is None
    if tail == "pad":
        assert seen == Counter(dict.fromkeys(range(len(order.plan.members)), EPOCHS))


@pytest.mark.slow
def test_machine_code_gives_the_same(make_spec):
    sizes = pictures(random.Random(3), 500, 12)
    request = Buckets(max_area=128 * 128, divisor=16)
    one, other = (
        make_order(make_spec, sizes, request, 8, arithmetic=arithmetic, seed=9)
        for arithmetic in (PLAIN, COMPILED)
    )
    for epoch in (0, 5):
        assert one.steps(epoch) == other.steps(epoch)
        for step in range(one.steps(epoch)):
            for left, right in zip(
                one.rows(epoch, step, 1, 8), other.rows(epoch, step, 1, 8), strict=True
            ):
                assert np.array_equal(left, right)


def test_a_substitute_comes_from_the_same_bucket(make_spec):
    order = make_order(
        make_spec, pictures(random.Random(5), 90, 5), Buckets(max_area=128**2, divisor=16), 4
    )
    rows = order.rows(2, 1, 0, 4)
    bucket = order.bucket(2, 1)
    ids = set(order.plan.ids(bucket).tolist())
    for number, own, position in zip(rows.ids, rows.epochs, rows.positions, strict=True):
        some = [
            order.substitute(int(own), int(position), int(number), attempt)
            for attempt in range(1, 17)
        ]
        assert {found for found, _ in some} <= ids
        assert {visit for _, visit in some} == {position + 1}
        for found, visit in some:
            assert order.find(int(own), found, visit).place == (2, 1)
    assert len(ids) > 4


def test_progress_counts_the_steps_that_there_are(make_spec):
    order = make_order(
        make_spec, pictures(random.Random(6), 50, 4), Buckets(max_area=128**2, divisor=16), 4,
        total_epochs=3,
    )  # fmt: skip
    places = [(e, s) for e in range(3) for s in range(order.steps(e))]
    assert len(set(map(order.steps, range(EPOCHS)))) > 1, "epochs differ in length"
    for number, place in enumerate(places):
        assert order.progress(*place) == number / len(places)
    assert order.progress(3, 0) == order.progress(90, 2) == 1.0


def test_a_million_images_are_a_plan_of_little_memory():
    import tracemalloc  # noqa: PLC0415 - for this test alone

    rng = np.random.default_rng(1)
    widths, heights = rng.integers(200, 4000, (2, 10**6), np.int32)
    request = Buckets(max_area=1024 * 1024)
    tracemalloc.start()
    plan = make_plan([(widths, heights)], request, 64)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(bucket.samples for bucket in plan.buckets) == 10**6
    assert peak < 50e6
    halves = [(widths[:7], heights[:7]), (widths[7:], heights[7:])]
    assert make_plan(halves, request, 64).digest == plan.digest


def test_the_digest_says_every_choice(make_spec):
    sizes = pictures(random.Random(4), 60, 5)
    base = {"max_area": 128 * 128, "divisor": 16}
    digests = {
        plan_of(sizes, Buckets(**base, **more), batch).digest
        for more in ({}, {"max_side": 160}, {"leftovers": "drop"}, {"constant": "pixels"})
        for batch in (4, 5)
    }
    assert len(digests) == 8
    swapped = [sizes[1], sizes[0], *sizes[2:]]
    assert sizes[0] != sizes[1]
    first = plan_of(sizes, Buckets(**base), 4)
    assert plan_of(swapped, Buckets(**base), 4).digest != first.digest


@pytest.mark.parametrize("leftovers", ["carry", "merge"])
@pytest.mark.parametrize("seed", range(4))
def test_excluded_samples_are_as_if_they_were_not_there(leftovers, seed):
    rng = random.Random(seed)
    sizes = pictures(rng, 70, 6)
    excluded = sorted(rng.sample(range(70), 1 + 9 * seed))
    request = Buckets(max_area=128 * 128, divisor=16, leftovers=leftovers)
    sizes_given = list(sizes)
    sizes_given[excluded[0]] = (0, 70000)  # it is never read
    widths, heights = np.array(sizes_given, np.int64).T
    blocks = [(widths[:33], heights[:33]), (widths[33:], heights[33:])]
    plan = make_plan(blocks, request, 4, np.array(excluded))
    left = [number for number in range(70) if number not in excluded]
    other = plan_of([sizes[number] for number in left], request, 4)
    assert plan.buckets == other.buckets
    assert plan.members.tolist() == [left[number] for number in other.members.tolist()]
    assert plan.merged().tolist() == [left[number] for number in other.merged().tolist()]
    assert (plan.excluded, plan.excluded_ids().tolist()) == (len(excluded), excluded)
    assert plan.digest != other.digest


def test_small_buckets_merge_into_the_one_that_cuts_least():
    request = Buckets(max_area=128 * 128, divisor=16, leftovers="merge")
    sizes = [(100, 100)] * 8 + [(200, 100)] * 8 + [(100, 130)] * 3 + [(300, 100)] * 2
    plan = plan_of(sizes, request, 4)
    kept = {(b.width, b.height): plan.ids(n).tolist() for n, b in enumerate(plan.buckets)}
    square, wide = (128, 128), (160, 80)
    assert set(kept) == {square, wide}
    assert kept[square] == [*range(8), 16, 17, 18]  # 100 x 130 keeps 10/13 in a square
    assert kept[wide] == [*range(8, 16), 19, 20]
    assert plan.merged().tolist() == [16, 17, 18, 19, 20]


def test_merging_agrees_with_fractions():
    rng = random.Random(8)
    for _ in range(20):
        sizes = pictures(rng, 80, 14)
        request = Buckets(max_area=160 * 160, divisor=16, leftovers="merge")
        plan = plan_of(sizes, request, 5)
        assert [plan.locate(n)[0] for n in range(80)] == _merged_by_fractions(plan, sizes, 5)
        assert len(plan.buckets) == 1 or min(b.samples for b in plan.buckets) >= 5


def _merged_by_fractions(plan, sizes, batch) -> list[int]:
    from fractions import Fraction  # noqa: PLC0415 - for this reference alone

    where = [plan.sizes[own] for own in plan.own.tolist()]
    alive = set(where)
    while len(alive) > 1:
        counts = Counter(where)
        small = [size for size in alive if counts[size] < batch]
        if not small:
            break
        least = min(small, key=lambda size: (counts[size], size))
        alive.remove(least)
        for number, (w, h) in enumerate(sizes):
            if where[number] == least:
                ratio = Fraction(w, h)
                kept = {
                    (W, H): min(Fraction(W, H) / ratio, ratio / Fraction(W, H)) for W, H in alive
                }
                where[number] = max(alive, key=lambda s: (kept[s], s[0] * s[1], s[0]))
    names = [(bucket.width, bucket.height) for bucket in plan.buckets]
    return [names.index(size) for size in where]


def test_one_image_is_a_stream(make_spec):
    order = make_order(make_spec, [(100, 10000)], Buckets(max_area=512**2), 1)
    assert [order.rows(epoch, 0, 0, 1).ids.tolist() for epoch in range(3)] == [[0]] * 3
    assert (order.plan.buckets[0].width, order.plan.buckets[0].height) == (64, 4096)


def test_constant_pixels_have_limits(make_spec):
    sizes = [(100, 100)] * 30 + [(100, 1000)] * 30
    request = Buckets(
        max_area=256**2, divisor=32, max_side=256, constant="pixels", min_rows=3, max_rows=5
    )
    plan = plan_of(sizes, request, 4)
    found = {(b.width, b.height): b.positions for b in plan.buckets}
    assert found == {(256, 256): 4, (32, 256): 5}
    free = plan_of(sizes, Buckets(max_area=256**2, divisor=32, max_side=256, constant="pixels"), 4)
    assert {b.positions for b in free.buckets} == {4, 32}
