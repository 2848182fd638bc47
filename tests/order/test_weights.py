"""Weighted orders: by the page alone, against vectors and stoker.order; how often samples come."""

import hashlib
import json
import math
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order_page import block_shuffled, integer, permuted

from stoker.order.compose import dataset_order
from stoker.order.repeat import Weighting, integer_weights
from stoker.protocol.errors import UsageError
from stoker.protocol.exclude import Excluded

VECTORS = json.loads(
    (Path(__file__).parents[2] / "docs/contracts/vectors/weights.json").read_text()
)
WEIGHTS = st.lists(st.floats(1e-3, 1e3) | st.integers(1, 9).map(float), min_size=1, max_size=40)


# --- by the page ---------------------------------------------------------------------------------


def whole(weights):
    """The integer weights, in exact fractions."""
    n = len(weights)
    bits = 60 - math.frexp(max(weights))[1] - (n - 1).bit_length()
    return [round(Fraction(weight) * Fraction(2) ** bits) for weight in weights]


def marks(weights, seed, epoch):
    """(place, visit) of every mark of an epoch, by a walk along the line."""
    q = whole(weights)
    total, n = sum(q), len(q)
    turned = sum(2 ** (63 - bit) for bit in range(64) if epoch >> bit & 1)
    first = integer(seed, "stoker/order", 0, 0, 4, 0, total) + turned * total // 2**64
    first %= total
    found, place, end, visit = [], 0, q[0], 0
    for mark in range(n):
        while Fraction(first + mark * total, n) >= end:
            place, visit = place + 1, 0
            end += q[place]
        found.append((place, visit))
        visit += 1
    return found


def digest(weights):
    data = b"".join(struct.pack("<q", number) for number in whole(weights))
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def order_of(make_spec, weights, *, order=None, excluded=None, **fields):
    weighting = Weighting(np.array(weights, np.float64))
    rows = len(weights) + (len(excluded) if excluded else 0)
    order = {"kind": "weighted", "weights": weighting.digest, **(order or {})}
    spec = make_spec(
        rows=rows, order=order, exclude=excluded.digest if excluded else None, **fields
    )
    return dataset_order(spec, excluded=excluded, weighting=weighting)


@pytest.mark.parametrize("case", VECTORS["orders"], ids=lambda c: c["name"])
def test_vectors(case, make_spec):
    weights, seed = case["weights"], int(case["seed"], 16)
    n, epoch = len(weights), case["epoch"]
    assert [str(number) for number in whole(weights)] == case["integers"]
    assert digest(weights) == case["digest"]
    at = marks(weights, seed, epoch)
    if not case["shuffle"]:
        places = range(n)
    elif case["block"] is None:
        places = [permuted(n, seed, epoch, 0, 0, x) for x in range(n)]
    else:
        places = block_shuffled(n, case["block"], seed, epoch)
    assert [list(at[mark]) for mark in places] == case["rows"]
    made = order_of(
        make_spec, weights, batch=1, seed=seed,
        order={"shuffle": case["shuffle"], "block": case["block"]},
    )  # fmt: skip
    ids, visits = made.rows_of[0].lookup(epoch, 0, n)[:2]
    assert np.stack((ids, visits), axis=1).tolist() == case["rows"]


@settings(max_examples=60, deadline=None)
@given(WEIGHTS, st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_any_weights_by_the_page(weights, seed, epoch):
    q = integer_weights(np.array(weights))
    assert q.tolist() == whole(weights)
    assert int(q.sum()) <= 2**60
    made = Weighting(np.array(weights))
    places, visits = made.at(seed, epoch, np.arange(len(weights)))
    assert list(zip(places.tolist(), visits.tolist(), strict=True)) == marks(weights, seed, epoch)


# --- how often -----------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(WEIGHTS, st.integers(0, 2**32))
def test_an_epoch_has_each_sample_the_floor_of_its_share_or_once_more(weights, seed):
    made, n = Weighting(np.array(weights)), len(weights)
    q = whole(weights)
    totals = np.zeros(n, np.int64)
    for epoch in range(32):
        places, visits = made.at(seed, epoch, np.arange(n))
        counts = np.bincount(places, minlength=n)
        for place in range(n):
            share = Fraction(q[place] * n, sum(q))
            assert counts[place] - math.floor(share) in ((0, 1) if share % 1 else (0,))
            assert made.count_of(seed, epoch, place) == counts[place]
            assert sorted(visits[places == place].tolist()) == list(range(counts[place]))
        totals += counts
        slack = 1 if (epoch + 1) & epoch == 0 else (epoch + 1).bit_count()
        for place in range(n):
            assert abs(totals[place] - Fraction(q[place] * n * (epoch + 1), sum(q))) <= slack


def test_equal_weights_are_the_dataset_order(make_spec):
    for weights in ([0.1] * 100, [7] * 100):
        made = order_of(make_spec, weights, seed=3)
        ids, visits = made.rows_of[0].lookup(5, 0, 100)[:2]
        plain = dataset_order(make_spec(seed=3))
        assert ids.tolist() == plain.rows_of[0].lookup(5, 0, 100).ids.tolist()
        assert not visits.any()


@pytest.mark.parametrize("order", [{}, {"shuffle": False}, {"block": 7}])
def test_look_ups_agree_and_have_inverses(make_spec, order):
    weights = [1, 5, 0.3, 2, 2, 9, 0.25, 1] * 6
    excluded = Excluded([3, 11, 50])
    made = order_of(make_spec, weights, order=order, excluded=excluded, tail="pad", batch=11)
    steps = [made.rows(2, step, 0, 11) for step in range(made.steps(2))]
    ids, visits = (np.concatenate([getattr(s, name) for s in steps]) for name in ("ids", "visits"))
    assert len(ids) == 55
    assert ids[48:].tolist() == [-1] * 7
    assert not set(ids.tolist()) & {3, 11, 50}
    for position in range(48):
        found = made.find(2, int(ids[position]), int(visits[position]))
        assert found == (None, position, (2, position // 11))
    common = int(np.bincount(ids[:48]).argmax())
    count = int((ids == common).sum())
    assert count > 1
    with pytest.raises(UsageError, match=f"sample {common}: expected a visit below {count}, got"):
        made.find(2, common, count)
    with pytest.raises(UsageError, match="the stream leaves out sample 11"):
        made.find(2, 11)


def test_marks_at_the_end_of_a_long_line():
    """Arithmetic stays exact where products pass 2**53."""
    n = 2**20
    made = Weighting(np.where(np.arange(n) % 3, 1.0, 4.0))
    q = integer_weights(np.where(np.arange(n) % 3, 1.0, 4.0))
    where = np.arange(n - 50, n)
    places, visits = made.at(1, 9, where)
    for place, visit, mark in zip(places.tolist(), visits.tolist(), where.tolist(), strict=True):
        assert made.mark(1, 9, place, visit) == mark
    share = Fraction(int(q[0]) * n, int(q.sum()))
    assert made.count_of(1, 9, 0) - math.floor(share) in (0, 1)


def test_substitutes_of_weighted_orders_have_visits_of_their_own(make_spec):
    weighting = Weighting(np.array([1.0, 3.0, 2.0, 1.0]))
    spec = make_spec(rows=4, batch=2, order={"kind": "weighted", "weights": weighting.digest})
    order = dataset_order(spec, weighting=weighting)
    number, visit = order.substitute(1, 3, 2, 1)
    assert visit == 2**47 + 3
    assert order.find(1, number, visit) == (None, 3, (1, 1))
    ids, visits = order.rows_of[0].lookup(1, 0, 4)[:2]
    assert order.find(1, int(ids[2]), int(visits[2])).position == 2


def test_only_the_ratios_of_weights_count():
    for scale in (2.0**-1060, 2.0**900):
        same = Weighting(np.array([1.0, 3]) * scale)
        assert same.digest == Weighting(np.array([1.0, 3])).digest
