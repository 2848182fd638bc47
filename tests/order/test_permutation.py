"""The keyed permutation: a bijection, one in all its forms, O(1), and clear about misuse."""

import numpy as np
import pytest

from stoker.jit import compiled
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.order.permutation import (
    MAX_N,
    TINY,
    Permutation,
    permute,
    permute_into,
    rounds_for,
)
from stoker.protocol.errors import UsageError

LARGE = [2**16, 2**16 + 1, 10**6, 10**9 + 7, 2**32 - 1, 2**32, 10**12, 2**48 - 1, 2**48]


def everything(n, seed, epoch, **options):
    return Permutation(n, seed, epoch, **options).many(np.arange(n))


@pytest.mark.slow
def test_it_is_a_bijection_for_every_small_size():
    for n in range(1, 2001):
        ids = everything(n, n * 7919, n % 13, arithmetic=COMPILED)
        assert np.array_equal(np.sort(ids), np.arange(n)), n


@pytest.mark.parametrize("n", LARGE)
def test_the_inverse_finds_every_position_at_large_sizes(n):
    order = Permutation(n, 2**64 - 1, 2**40)
    rng = np.random.default_rng(n)
    places = np.concatenate([rng.integers(0, n, 200), [0, 1, n - 2, n - 1]])
    ids = order.many(places)
    assert ids.min() >= 0
    assert ids.max() < n
    assert [order.inverse(int(i)) for i in ids] == places.tolist()


@pytest.mark.slow
def test_a_million_positions_of_a_huge_domain_have_a_million_ids():
    order = Permutation(2**48, 1, 0, arithmetic=COMPILED)
    start = 2**47
    assert len(np.unique(order.many(np.arange(start, start + 10**6)))) == 10**6


@pytest.mark.slow
@pytest.mark.parametrize("n", [*range(1, 70), 1000, 4096, 65537, *LARGE])
def test_all_forms_give_the_same_ids(n):
    plain, machine = Permutation(n, 12345, 6), Permutation(n, 12345, 6, arithmetic=COMPILED)
    places = np.unique(np.random.default_rng(n).integers(0, n, 40))
    expected = [plain(int(x)) for x in places]
    assert np.array_equal(plain.state, machine.state)
    assert plain.many(places).tolist() == expected
    assert machine.many(places).tolist() == expected
    assert [machine(int(x)) for x in places] == expected
    assert [permute(plain.state, int(x)) for x in places] == expected
    assert [int(compiled(permute)(machine.state, np.uint64(x))) for x in places] == expected


@pytest.mark.slow
def test_many_keeps_the_shape_and_takes_an_empty_array():
    for arithmetic in (PLAIN, COMPILED):
        order = Permutation(50, 1, 1, arithmetic=arithmetic)
        flat = order.many(np.arange(12))
        assert np.array_equal(order.many(np.arange(12).reshape(3, 4)), flat.reshape(3, 4))
        assert order.many(np.arange(0)).shape == (0,)
        assert flat.dtype == np.int64


@pytest.mark.slow
def test_the_compiled_form_works_inside_a_compiled_loop():
    order = Permutation(1000, 3, 4)
    out = np.empty(1000, np.int64)
    compiled(permute_into)(order.state, np.arange(1000), out)
    assert np.array_equal(out, order.many(np.arange(1000)))
    plain = np.empty(100, np.int64)
    permute_into(order.state, np.arange(100), plain)
    assert np.array_equal(plain, out[:100])


def test_every_part_of_the_key_counts():
    n = 10_000
    base = everything(n, 1, 0)
    others = [
        everything(n, 2, 0),
        everything(n, 1, 1),
        everything(n, 1, 0, part=1),
        everything(n, 1, 0, level=1),
        everything(n, 1 + 2**63, 0),
    ]
    for other in others:
        # Independent orders agree in about one place.
        assert np.count_nonzero(base == other) < 10
    assert np.array_equal(base, everything(n, 1, 0))


def test_memory_and_rounds_do_not_grow_with_the_domain():
    assert rounds_for(TINY) == 96
    assert rounds_for(TINY + 1) == rounds_for(MAX_N) == 24
    assert Permutation(MAX_N, 0, 0).state.nbytes == Permutation(1000, 0, 0).state.nbytes == 27 * 8


@pytest.mark.parametrize("n", [1, 2, 3, 5, 64, 65, 1000, 10**6, 2**48])
def test_the_grid_is_even_and_little_larger_than_the_domain(n):
    size, a, b = (int(word) for word in Permutation(n, 0, 0).state[:3])
    assert size == n
    assert a % 2 == 0
    assert n <= a * b < n + a
    assert a <= 2**24


def test_misuse_is_named():
    with pytest.raises(UsageError, match=r"permutation: expected n from 1 to 2\*\*48, got 0"):
        Permutation(0, 0, 0)
    with pytest.raises(UsageError, match=rf"got {MAX_N + 1}"):
        Permutation(MAX_N + 1, 0, 0)
    with pytest.raises(UsageError, match="random key: seed: expected an integer from 0"):
        Permutation(5, -1, 0)
    order = Permutation(5, 0, 0)
    for bad in (-1, 5):
        with pytest.raises(UsageError, match=f"expected a position from 0 to 4, got {bad}"):
            order(bad)
        with pytest.raises(UsageError, match=f"expected an id from 0 to 4, got {bad}"):
            order.inverse(bad)
        with pytest.raises(UsageError, match=f"expected a position from 0 to 4, got {bad}"):
            order.many(np.array([0, bad, 3]))
