"""Mixtures: by the page alone, against vectors and stoker.order; exact shares, every sample."""

import json
import math
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order_page import integer, permuted

from stoker.order.compose import order_of as order_of_spec
from stoker.order.mix import MixTurns, Part, floor_sum, mix_digest, shares
from stoker.order.selected import Selected
from stoker.protocol.canonical import canonical_digest

VECTORS = json.loads((Path(__file__).parents[2] / "docs/contracts/vectors/mix.json").read_text())
RATIOS = st.lists(st.floats(0.02, 1) | st.integers(1, 20).map(float), min_size=1, max_size=5)


# --- by the page ---------------------------------------------------------------------------------


def by_page_shares(ratios, batch_size):
    rows, total = 1000 * batch_size, sum(Fraction(r) for r in ratios)
    exact = [Fraction(r) * rows / total for r in ratios]
    found = [int(part) for part in exact]
    while sum(found) < rows:
        rests = [part - count for part, count in zip(exact, found, strict=True)]
        found[rests.index(max(rests))] += 1
    return found


def by_page_datasets(counts, seed, stop):
    """The dataset of each position, by a walk from the first one."""
    period = sum(counts)
    step = period * 11400714819323198485 // 2**64
    while math.gcd(step, period) > 1:
        step += 1
    slot = integer(seed, "stoker/order", 0, 0, 6, 0, period)
    found = []
    for _ in range(stop):
        dataset, end = 0, counts[0]
        while slot >= end:
            dataset += 1
            end += counts[dataset]
        found.append(dataset)
        slot = (slot + step) % period
    return found


def by_page_rows(rows, counts, seed, shuffle, stop):
    """(id, epoch, position) of each position."""
    done, found = Counter(), []
    for dataset in by_page_datasets(counts, seed, stop):
        epoch, place = divmod(done[dataset], rows[dataset])
        done[dataset] += 1
        local = permuted(rows[dataset], seed, epoch, dataset, 5, place) if shuffle else place
        found.append([sum(rows[:dataset]) + local, epoch, place])
    return found


def parts_of(rows, counts):
    return [
        Part(f"content:{number:032x}", count, f"{number:032x}", share)
        for number, (count, share) in enumerate(zip(rows, counts, strict=True))
    ]


def order_of(make_spec, rows, ratios, batch=8, **fields):
    parts = parts_of(rows, shares(ratios, batch))
    spec = make_spec(rows=sum(rows), batch=batch, mix=mix_digest(parts), **fields)
    return order_of_spec(spec, [Selected(count) for count in rows], parts=parts)


def columns(order, epoch, step, lo, hi):
    found = order.rows(epoch, step, lo, hi)
    return np.stack((found.ids, found.epochs, found.positions), axis=1).tolist()


@pytest.mark.parametrize("case", VECTORS["orders"], ids=lambda c: c["name"])
def test_vectors(case, make_spec):
    rows, size, seed = case["rows"], case["batch_size"], int(case["seed"], 16)
    assert by_page_shares(case["ratios"], size) == case["shares"]
    parts = parts_of(rows, case["shares"])
    assert mix_digest(parts) == canonical_digest([list(part) for part in parts]) == case["digest"]
    found = by_page_rows(rows, case["shares"], seed, case["shuffle"], len(case["first"]))
    assert found == case["first"]
    order = order_of(
        make_spec, rows, case["ratios"], size, seed=seed, order={"shuffle": case["shuffle"]}
    )
    got = []
    for step in range(len(found) // size):
        got += columns(order, *divmod(step, order.steps(0)), 0, size)
    assert got == found


@settings(max_examples=25, deadline=None)
@given(RATIOS, st.integers(1, 6), st.integers(0, 2**64 - 1))
def test_any_mixture_by_the_page(ratios, batch, seed):
    counts = shares(ratios, batch)
    assert counts == by_page_shares(ratios, batch)
    turns = MixTurns(counts, seed)
    datasets, numbers = turns.at(0, 2 * turns.period + 7)
    assert datasets.tolist() == by_page_datasets(counts, seed, len(datasets))
    for dataset in range(len(counts)):
        there = np.flatnonzero(datasets == dataset)
        assert numbers[there].tolist() == list(range(len(there)))
        for number in random.Random(seed).choices(range(len(there)), k=5):
            assert turns.position(dataset, number) == there[number]


# --- what is promised ----------------------------------------------------------------------------


@pytest.mark.parametrize(("ratios", "batch"), [([0.7, 0.3], 16), ([5, 1, 0.37], 7), ([1], 3)])
def test_every_window_of_a_thousand_batches_has_exactly_the_shares(ratios, batch):
    counts = shares(ratios, batch)
    turns = MixTurns(counts, 3)
    start, size = 10**15 // batch * batch, 1000 * batch
    datasets, _ = turns.at(start, start + 2 * size)
    for dataset, count in enumerate(counts):
        before = np.concatenate([[0], np.cumsum(datasets == dataset)])
        assert set((before[size:] - before[:-size]).tolist()) == {count}
        in_batch = np.diff(before[::batch])
        assert np.abs(in_batch - count / 1000).max() < 2


def test_each_dataset_shows_every_sample_once_per_its_own_epoch(make_spec):
    order = order_of(make_spec, [50, 13], [0.6, 0.4], tail="pad", views=2)
    seen = Counter()
    for number in range(60):
        found = order.rows(*divmod(number, order.steps(0)), 0, 16)
        assert found.views.tolist() == [0, 1] * 8
        assert not found.visits.any()
        seen.update(zip(found.ids[::2].tolist(), found.epochs[::2].tolist(), strict=True))
    assert set(seen.values()) == {1}
    whole = [(number, epoch) for epoch in range(4) for number in range(50)]
    assert sum(found in seen for found in whole) >= 200
    assert {(number, epoch) for epoch in range(12) for number in range(50, 63)} <= set(seen)


def test_any_rows_of_a_batch_and_their_inverse(make_spec):
    order = order_of(make_spec, [50, 13, 9], [0.5, 0.2, 0.3], seed=9)
    whole = columns(order, 3, 2, 0, 8)
    for lo in range(9):
        for hi in range(lo, 9):
            assert columns(order, 3, 2, lo, hi) == whole[lo:hi]
    for sample_id, epoch, position in whole:
        assert order.find(epoch, sample_id) == (None, position, (3, 2))
        assert order.find(epoch, sample_id, position + 1) == (None, position, (3, 2))


def test_any_place_of_huge_datasets_costs_the_same(make_spec):
    order = order_of(make_spec, [10**12, 10**11], [0.9, 0.1], batch=4096)
    epoch, step = 10**6, order.steps(0) - 1
    found = order.rows(epoch, step, 0, 4096)
    assert len(set(found.ids.tolist())) == 4096
    assert order.find(int(found.epochs[7]), int(found.ids[7])).place == (epoch, step)


def test_substitutes_come_from_the_same_dataset(make_spec):
    order = order_of(make_spec, [50, 13], [0.5, 0.5])
    for bad, low, high in ((7, 0, 50), (55, 50, 63)):
        for attempt in range(1, 17):
            number, visit = order.substitute(2, 4, bad, attempt)
            assert low <= number < high
            assert visit == 5


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 60), st.integers(1, 50), st.integers(0, 90), st.integers(0, 90))
def test_floor_sums(n, m, a, b):
    assert floor_sum(n, m, a, b) == sum((a * i + b) // m for i in range(n))


# --- what cannot be ------------------------------------------------------------------------------
