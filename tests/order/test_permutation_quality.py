"""The permutation is as good as a random one, as far as statistics can tell.

Every limit is in standard deviations of what a truly random permutation would give; seeds are
fixed, so an outcome is fixed too. The last test shows that these statistics do tell a poor one.
"""

import functools
import itertools
import math

import numpy as np
import pytest

from stoker.jit import compiled
from stoker.jit.arithmetic import COMPILED
from stoker.order.permutation import HEADER, Permutation, permute_into

pytestmark = pytest.mark.slow

LIMIT = 5.0


def orders(n, seeds, epochs=1, places=None):
    """(seeds * epochs, n) ids: every order of those seeds and epochs, or some places of it."""
    places = np.arange(n) if places is None else places
    return np.array(
        [
            Permutation(n, seed, epoch, arithmetic=COMPILED).many(places)
            for seed in range(seeds)
            for epoch in range(epochs)
        ]
    )


def counts(values, size):
    return np.bincount(np.asarray(values).ravel(), minlength=size)


@pytest.mark.parametrize(("n", "seeds"), [(2, 400), (3, 1200), (4, 4800), (5, 6000), (6, 18000)])
def test_all_orders_of_a_tiny_domain_are_alike(n, seeds, uniform_z):
    ranks = orders(n, seeds) @ (n ** np.arange(n))
    known = np.sort([np.array(p) @ (n ** np.arange(n)) for p in itertools.permutations(range(n))])
    found = counts(np.searchsorted(known, ranks), math.factorial(n))
    assert np.array_equal(np.unique(ranks), known)
    assert abs(uniform_z(found)) < LIMIT


@pytest.mark.parametrize("n", [4, 8, 9, 16, 64, 256, 1000])
def test_both_parities_come_alike(n):
    total = 600
    odd = 0
    for ids in orders(n, total):
        seen, swaps = set(), 0
        for start in range(n):
            x, length = start, 0
            while x not in seen:
                seen.add(x)
                x, length = int(ids[x]), length + 1
            swaps += max(length - 1, 0)
        odd += swaps % 2
    assert abs(odd - total / 2) < LIMIT * math.sqrt(total / 4)


@pytest.mark.parametrize("n", [7, 16, 37, 65, 100, 257])
def test_every_id_comes_at_every_position_alike(n, uniform_z):
    table = orders(n, 40 * n // 20, epochs=20)
    cells = counts(np.arange(n) * n + table, n * n)
    assert abs(uniform_z(cells)) < LIMIT


@functools.cache
def some_positions(n):
    """Place -> its id in each of many orders."""
    places = [0, 1, 3, 4, n - 1]
    table = orders(n, 6 * n * n // 20, epochs=20, places=np.array(places))
    return dict(zip((*places[:-1], -1), table.T, strict=True))


@pytest.mark.parametrize("n", [7, 12, 30, 65, 90])
@pytest.mark.parametrize("places", [(0, 1), (0, -1), (3, 4)])
def test_pairs_of_positions_are_alike(n, places, uniform_z):
    first, second = (some_positions(n)[place] for place in places)
    cells = counts(first * n + second, n * n).reshape(n, n)
    assert not cells.diagonal().any()
    assert abs(uniform_z(cells[~np.eye(n, dtype=bool)])) < LIMIT


@pytest.mark.parametrize("n", [65, 1000, 1024, 99_991, 10**6, 2**40])
@pytest.mark.parametrize("distance", [1, 2, 64, 1000])
def test_neighboring_positions_are_uncorrelated(n, distance):
    distance = min(distance, n // 2)
    pairs = n - distance
    if pairs <= 20_000:
        places = np.arange(pairs)
    else:
        places = np.random.default_rng(distance).integers(0, pairs, 20_000)
    products = []
    for epoch in range(5):
        order = Permutation(n, 99, epoch, arithmetic=COMPILED)
        here = order.many(places) / (n - 1) - 0.5
        there = order.many(places + distance) / (n - 1) - 0.5
        products.append(12 * here * there)
    # In a random permutation the correlation of two places is -1/(n-1), its error 1/sqrt(draws).
    found, draws = np.mean(products), len(places) * 5
    assert abs(found + 1 / (n - 1)) < LIMIT / math.sqrt(draws)


@pytest.mark.parametrize("n", [1000, 65_536, 10**6])
def test_steps_between_neighbors_are_uniform(n, uniform_z):
    ids = Permutation(n, 5, 3, arithmetic=COMPILED).many(np.arange(min(n, 200_000)))
    steps = np.diff(ids) % n
    assert abs(uniform_z(counts(steps * 64 // n, 64))) < LIMIT


@pytest.mark.parametrize("n", [1000, 4096, 10_007])
def test_fixed_points_and_agreement_of_epochs_are_those_of_chance(n):
    table = orders(n, 1, epochs=400)
    fixed = (table == np.arange(n)).sum()
    shared = (table[1:] == table[:-1]).sum()
    # Each is a Poisson count of mean 1 an order.
    assert abs(fixed - 400) < LIMIT * 20
    assert abs(shared - 399) < LIMIT * 20


@pytest.mark.parametrize("n", [12, 100, 4096])
def test_consecutive_epochs_are_independent(n, uniform_z):
    table = orders(n, max(1, 8000 // n), epochs=50)
    by_seed = table.reshape(-1, 50, n)
    moved = (by_seed[:, 1:] - by_seed[:, :-1]) % n
    bins = min(n, 32)
    # 12 and 100 do not divide by 32: merge by whole ids only.
    groups = moved % bins if n % bins == 0 else moved
    assert abs(uniform_z(counts(groups, bins if n % bins == 0 else n))) < LIMIT


def test_these_statistics_find_too_few_rounds(uniform_z):
    """With 4 rounds instead of 96 the orders of 6 ids are far from alike."""
    n, found = 6, []
    walk, places, out = compiled(permute_into), np.arange(n), np.empty(n, np.int64)
    for seed in range(18_000):
        walk(Permutation(n, seed, 0, arithmetic=COMPILED).state[: HEADER + 4], places, out)
        found.append(int(out @ (n ** np.arange(n))))
    _, cells = np.unique(found, return_counts=True)
    assert uniform_z(cells) > 4 * LIMIT
