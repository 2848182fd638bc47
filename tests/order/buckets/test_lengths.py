"""Buckets of sequences: lengths, plans and orders against lists; requests and datasets refused."""

import bisect
import random
from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.client import Buckets, LengthBuckets
from stoker.order.bucket_leftovers import account, carried_ids, dropped_ids
from stoker.order.buckets.bucket_lengths import bucket_lengths
from stoker.order.buckets.bucket_plan import make_plan
from stoker.order.compose import dataset_order
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import StreamSpec

requests = st.one_of(
    st.builds(
        dict,
        multiple=st.sampled_from([1, 7, 16, 64]),
        max_length=st.one_of(st.none(), st.integers(1, 300)),
    ),
    st.builds(
        dict,
        bounds=st.sets(st.integers(1, 300), min_size=1, max_size=6).map(sorted).map(tuple),
    ),
)
rules = st.builds(
    lambda sizes, more: {**sizes, **more},
    requests,
    st.fixed_dictionaries(
        {
            "longer": st.sampled_from(["truncate", "drop"]),
            "leftovers": st.sampled_from(["carry", "merge", "drop"]),
            "constant": st.sampled_from(["rows", "tokens"]),
        }
    ),
)


def plan_of(lengths, request, batch=4, **more):
    column = np.array(lengths, np.int64)
    return make_plan([(column[:9], column[:9]), (column[9:], column[9:])], request, batch, **more)


def by_hand(length, request):
    """The bucket of one sequence, from lists of numbers alone; None: it is dropped."""
    most = request.bounds[-1] if request.bounds else request.max_length
    if request.bounds:
        place = bisect.bisect_left(request.bounds, length)
        found = request.bounds[place] if place < len(request.bounds) else None
    else:
        found = next(n for n in range(request.multiple, 999, request.multiple) if n >= length)
        if most is not None:
            found = min(found, most) if length <= most else None
    if found is None and request.longer == "truncate":
        return most
    return found


def lengths_of(seed, count):
    rng = random.Random(seed)
    return [min(int(rng.lognormvariate(3, 1)), 400) for _ in range(count)]


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 90), rule=rules)
def test_every_sequence_has_the_bucket_it_fits_best(seed, count, rule):
    request = LengthBuckets(field="tokens", **rule)
    lengths = lengths_of(seed, count)
    expected = [by_hand(length, request) for length in lengths]
    found = bucket_lengths(np.array(lengths), request)
    assert found.tolist() == [length or 0 for length in expected]
    assert found.dtype == np.int64, "no key is a float"
    assert msgspec.convert(msgspec.to_builtins(request), Buckets | LengthBuckets) == request


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), count=st.integers(9, 120), rule=rules)
def test_plans_and_epochs_add_up(seed, count, rule):
    request = LengthBuckets(field="tokens", **rule)
    lengths = lengths_of(seed, count)
    try:
        plan = plan_of(lengths, request)
    except UsageError as error:
        if "larger than every bucket" in error.message or "not left out" in error.message:
            return
        raise
    own = [by_hand(length, request) for length in lengths]
    gone = [number for number, found in enumerate(own) if found is None]
    assert plan.excluded_ids().tolist() == gone
    where = {}
    for number, bucket in enumerate(plan.buckets):
        assert (bucket.height, bucket.name) == (0, str(bucket.width))
        for sample in plan.ids(number).tolist():
            where[sample] = bucket.width
    assert sorted(where) == [number for number in range(count) if own[number] is not None]
    moved = {sample for sample in where if where[sample] != own[sample]}
    assert plan.merged().tolist() == sorted(moved)
    assert all(where[sample] > own[sample] for sample in moved), "merging cuts nothing off"
    assert not moved or request.leftovers == "merge"
    if request.leftovers == "merge" and len(plan.buckets) > 1:
        assert all(bucket.samples >= bucket.positions for bucket in plan.buckets)
    reference = request.reference or max(found for found in own if found)
    for bucket in plan.buckets:
        constant = request.constant == "rows"
        assert bucket.positions == (4 if constant else max(4 * reference // bucket.width, 1))
    _epochs_add_up(dataset_order(_spec(count, plan=plan), plan=plan), set(where), lengths, request)


def _spec(rows, plan, **fields):
    return StreamSpec(
        dataset="content:" + "0" * 32, dataset_rows=rows, pipeline="0" * 32, batch_size=4,
        buckets=plan.digest, **fields,
    )  # fmt: skip


def _epochs_add_up(order, samples, lengths, request):
    before: Counter = Counter()
    for epoch in range(3):
        delivered: Counter = Counter()
        for step in range(order.steps(epoch)):
            bucket = order.plan.buckets[order.bucket(epoch, step)]
            rows = order.rows(epoch, step, 0, bucket.positions)
            delivered.update(rows.ids.tolist())
            longest = max(lengths[number] for number in rows.ids.tolist())
            assert longest <= bucket.width or request.longer == "truncate"
        carried = Counter(carried_ids(order, epoch).tolist())
        dropped = Counter(dropped_ids(order, epoch).tolist())
        assert delivered + carried + dropped == Counter(samples) + before
        found = account(order, epoch)
        assert (found.delivered, found.carried_in) == (delivered.total(), before.total())
        assert (found.carried_out, found.dropped) == (carried.total(), dropped.total())
        assert found.samples + found.excluded == len(lengths)
        before = carried


def test_small_buckets_go_up_and_the_longest_takes_in_the_next():
    lengths = [5] * 9 + [12] * 2 + [20] * 8 + [40] * 3
    request = LengthBuckets(field="tokens", bounds=(8, 16, 32, 64), leftovers="merge")
    plan = plan_of(lengths, request)
    found = {bucket.width: plan.ids(number).tolist() for number, bucket in enumerate(plan.buckets)}
    assert found == {8: list(range(9)), 64: list(range(9, 22))}
    assert plan.merged().tolist() == list(range(9, 19))


def test_a_kept_length_is_that_of_a_multiple_or_the_greatest():
    request = LengthBuckets(field="tokens", multiple=64, max_length=100)
    found = bucket_lengths(np.array([0, 1, 64, 65, 100]), request)
    assert found.tolist() == [64, 64, 64, 100, 100]
    exact = LengthBuckets(field="tokens", multiple=1)
    assert bucket_lengths(np.array([0, 1, 333]), exact).tolist() == [1, 1, 333]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, r"multiple=None, bounds=None: expected exactly one of them, for example multiple=64"),
        ({"multiple": 8, "bounds": (8,)}, r"bounds=\(8,\): expected exactly one of them"),
        ({"multiple": 0}, "multiple: expected an integer from 1 to 1048576, got 0"),
        ({"multiple": 8.0}, "multiple: expected an integer from 1 to 1048576, got 8.0"),
        ({"multiple": 8, "max_length": 0}, "max_length: expected an integer from 1 to 1048576"),
        ({"bounds": ()}, r"bounds: expected 1 to 256 lengths, got \(\)"),
        ({"bounds": tuple(range(1, 300))}, "bounds: expected 1 to 256 lengths, got"),
        ({"bounds": (8, 8)}, r"bounds: expected ascending lengths, got \(8, 8\)"),
        ({"bounds": (0, 8)}, "bounds: expected an integer from 1 to 1048576, got 0"),
        ({"bounds": (8, 9), "max_length": 9}, "max_length=9: the last bound is already the"),
        ({"multiple": 8, "longer": "cut"}, "longer: expected 'error' or 'truncate' or 'drop', got"),
        ({"multiple": 8, "constant": "pixels"}, "constant: expected 'rows' or 'tokens', got"),
        ({"multiple": 8, "leftovers": "lose"}, "leftovers: expected 'carry' or 'merge' or 'drop'"),
        ({"multiple": 8, "min_rows": 9, "max_rows": 8}, "min_rows=9 is more than max_rows=8"),
    ],
)
def test_requests_that_cannot_be(fields, message):
    with pytest.raises(UsageError, match=message):
        LengthBuckets(field="tokens", **fields)


@pytest.mark.parametrize(
    ("lengths", "fields", "message"),
    [
        ([5, 9, 70, 71], {"bounds": (8, 64)}, "sequence of id 2 has length 70; 2 are longer"),
        ([5, 2**20 + 1], {"multiple": 8}, "the sequence of id 1 .* 1 is longer than 1048576, the"),
        ([5, -1], {"multiple": 8}, "the sequence of id 1 has length -1; expected a length fro"),
        ([9, 9], {"bounds": (8,), "longer": "drop"}, "dataset has no sample that is not left out"),
        ([], {"bounds": (8,)}, "the dataset has no sample$"),
        (
            [9] * 3,
            {"bounds": (16,)},
            "a batch is larger than every bucket: the fullest one, 16, has 3",
        ),
    ],
)
def test_datasets_that_have_no_plan(lengths, fields, message):
    with pytest.raises(UsageError, match=message):
        plan_of(lengths, LengthBuckets(field="tokens", **fields))


def test_an_excluded_sequence_may_be_too_long():
    request = LengthBuckets(field="tokens", bounds=(8,))
    plan = plan_of([5, 70, 5, 5, 5], request, excluded=np.array([1]))
    assert plan.members.tolist() == [0, 2, 3, 4]
