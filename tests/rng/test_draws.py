"""Draws: laws, bounds, independence of each other, and the same bits plain and compiled."""

import math
import statistics

import numpy as np
import pytest
from bits import same_bits

from stoker.jit import compiled
from stoker.protocol.errors import UsageError
from stoker.rng import draws, maths
from stoker.rng.normals import inverse_normal
from stoker.rng.philox import key_block
from stoker.rng.streams import (
    Key,
    check_stream_name,
    freeze_epoch,
    freeze_value,
    frozen_key,
    machine_key,
    make_key,
    stream_key,
)

EXTREME = Key(2**64 - 1, 2**64 - 1, 2**64 - 1, 2**64 - 1, 2**64 - 1)
KEYS = [
    EXTREME,
    Key(0, 0, 0, 0, 0),
    *(make_key(7, stream_key("flip"), i, i % 5, i % 3, i % 2) for i in range(300)),
]
CALLS = {
    "uniform": [()],
    "uniform_range": [
        (0.3, 1.0),
        (-5.0, -5.0),
        (np.float32(0.1), np.float32(0.2)),
        (-1e308, 7e307),
    ],
    "log_uniform": [(0.75, 4 / 3), (1e-300, 1e300), (2.0, 2.0)],
    "integers": [(1,), (2,), (3,), (1000,), (2**40 + 1,)],
    "bernoulli": [(0.0,), (0.5,), (1.0,), (np.float32(0.3),)],
    "normal": [()],
}


@pytest.mark.parametrize("name", CALLS)
def test_compiled_twins_give_the_same_bits(name):
    plain = getattr(draws, name)
    fast = compiled(plain)
    for arguments in CALLS[name]:
        for key in KEYS:
            for k in (0, 1, draws.MAX_DRAW):
                expected, got = plain(key, k, *arguments), fast(machine_key(key), k, *arguments)
                assert type(got) is type(expected)
                assert same_bits(got, expected), (name, key, k, arguments)


def test_log_uniform_stays_in_its_range():
    """The exponential of a logarithm misses by a rounding, to either side."""
    ends = [float(x) for x in np.linspace(0.1, 3.0, 40)]
    found = [maths.exp(maths.log(x)) for x in ends]
    misses = {np.sign(y - x) for x, y in zip(ends, found, strict=True)}
    assert misses == {-1.0, 0.0, 1.0}
    fast = compiled(draws.log_uniform)
    for x in ends:
        assert draws.log_uniform(KEYS[0], 0, x, x) == x
        assert fast(machine_key(KEYS[0]), 0, x, x) == x


@pytest.mark.parametrize("n", [2**63, 2**63 - 1, 2**62 + 1, 3 * 2**61])
def test_integers_with_many_rejections_agree(n):
    fast = compiled(draws.integers)
    tried = 0
    for key in KEYS:
        value = draws.integers(key, 5, n)
        assert 0 <= value < n
        assert fast(machine_key(key), 5, np.uint64(n)) == value
        tried += draws.word(key, 5, 0) * n >> 64 != value
    if n == 2**62 + 1:
        assert tried > 20, "no rejection was met"


def test_words_of_a_draw_are_the_lanes_of_its_blocks():
    key = make_key(1, 2, 3, 4, 5, 6)
    fast = compiled(draws.word)
    for k in (0, 1, 77):
        words = [w for block in range(3) for w in key_block(key, k * 2**32 + block)]
        assert [draws.word(key, k, j) for j in range(12)] == words
        assert [fast(machine_key(key), k, j) for j in range(12)] == words


def test_a_uniform_is_the_top_53_bits():
    for key in KEYS:
        word = key_block(key, 3 * 2**32)[0]
        assert draws.uniform(key, 3) == (word >> 11) / 2**53
    assert min(draws.uniform(key, 0) for key in KEYS) >= 0.0
    assert max(draws.uniform(key, 0) for key in KEYS) < 1.0


def values(name, count, *arguments):
    fast = compiled(getattr(draws, name))
    return np.array([fast(machine_key(make_key(3, 9, i, 0)), 0, *arguments) for i in range(count)])


def kolmogorov(samples, distribution):
    """sqrt(n) times the largest distance of the distribution functions; above 1.95: p < 0.1 %."""
    ordered = np.sort(samples)
    n = len(ordered)
    expected = np.array([distribution(x) for x in ordered])
    steps = np.arange(n)
    return math.sqrt(n) * max((expected - steps / n).max(), ((steps + 1) / n - expected).max())


@pytest.mark.parametrize(
    ("name", "arguments", "distribution"),
    [
        ("uniform", (), lambda x: x),
        ("uniform_range", (-2.0, 6.0), lambda x: (x + 2) / 8),
        ("log_uniform", (0.5, 8.0), lambda x: math.log(x / 0.5) / math.log(16)),
        ("normal", (), statistics.NormalDist().cdf),
        ("integers", (2**62 + 1,), lambda x: x / 2**62),
    ],
)
def test_draws_follow_their_law(name, arguments, distribution):
    assert kolmogorov(values(name, 20_000, *arguments), distribution) < 1.95


def test_integers_and_bernoulli_have_the_right_frequencies():
    found = np.bincount(values("integers", 30_000, 7), minlength=7)
    assert len(found) == 7
    assert ((found - 30_000 / 7) ** 2).sum() / (30_000 / 7) < 22.5  # 0.1 % of chi-square, 6 free
    share = values("bernoulli", 30_000, 0.3).mean()
    assert abs(share - 0.3) < 4 * math.sqrt(0.21 / 30_000)
    assert not values("bernoulli", 1000, 0.0).any()
    assert values("bernoulli", 1000, 1.0).all()


def test_the_inverse_normal_agrees_with_pythons():
    rng = np.random.default_rng(0)
    probabilities = [(2 * int(m) + 1) * 2.0**-53 for m in rng.integers(0, 2**52, 3000)]
    probabilities += [2.0**-53, 1 - 2.0**-53, 1e-300, 2.0**-20, 0.075, 0.925, 0.0749, 1e-11]
    fast = compiled(inverse_normal)
    for p in probabilities:
        z = inverse_normal(p)
        expected = statistics.NormalDist().inv_cdf(p)
        assert abs(z - expected) <= 4 * math.ulp(expected)
        assert same_bits(fast(p), z)
    assert inverse_normal(2.0**-53) == -inverse_normal(1 - 2.0**-53)
    assert -8.21 < inverse_normal(2.0**-53) < -8.2


def test_each_part_of_a_key_changes_a_draw():
    base = [1, 2, 3, 4, 5, 6]
    seen = {draws.uniform(make_key(*base), 0), draws.uniform(make_key(*base), 1)}
    for part in range(6):
        changed = list(base)
        changed[part] += 1
        seen.add(draws.uniform(make_key(*changed), 0))
    assert len(seen) == 8


def test_freezes_replace_what_they_say_plain_and_compiled():
    key = make_key(1, 2, 3, 4, 5, 6)
    assert frozen_key(key, None) == key
    assert frozen_key(key, 7) == Key(1, 2, 7, 0, 0) == freeze_value(key, 7)
    assert frozen_key(key, 0) == Key(1, 2, 0, 0, 0)
    assert frozen_key(key, "epoch") == Key(1, 2, 3, 0, key.lane) == freeze_epoch(key)
    machine = machine_key(key)
    assert compiled(make_key)(1, 2, 3, 4, 5, 6) == key
    assert compiled(make_key)(np.uint64(2**64 - 1), 2, 3, 4) == Key(2**64 - 1, 2, 3, 4, 0)
    assert compiled(freeze_value)(machine, 7) == frozen_key(key, 7)
    assert compiled(freeze_epoch)(machine) == frozen_key(key, "epoch")


NO_FREEZE = r"freeze: expected an integer in \[0, 2\*\*64\), 'epoch'"
NO_NAME = "stream name: expected 1 to 255 bytes of UTF-8, got "


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: check_stream_name(""), NO_NAME),
        (lambda _: check_stream_name("é" * 128), NO_NAME),
        (lambda _: check_stream_name("\ud800"), NO_NAME),
        (
            lambda _: check_stream_name("stoker/order"),
            "names that begin with 'stoker/' are reserved",
        ),
        (
            lambda key: draws.uniform(key, -1),
            "draw number: expected an integer from 0 to 4294967295",
        ),
        (lambda key: draws.uniform(key, 2**32), "draw number: .* got 4294967296"),
        (lambda key: draws.integers(key, 0, 0), r"integers: expected n from 1 to 2\*\*63, got 0"),
        (lambda key: draws.integers(key, 0, 2**63 + 1), "integers: expected n"),
        (lambda key: draws.bernoulli(key, 0, 1.5), "bernoulli: expected p from 0 to 1, got 1.5"),
        (
            lambda key: draws.bernoulli(key, 0, math.nan),
            "bernoulli: expected p from 0 to 1, got nan",
        ),
        (
            lambda key: draws.uniform_range(key, 0, 2, 1),
            "expected finite low <= high, got 2.0 and 1.0",
        ),
        (lambda key: draws.uniform_range(key, 0, 0, math.inf), "expected finite low <= high"),
        (
            lambda key: draws.log_uniform(key, 0, 0, 1),
            "log_uniform: expected finite 0 < low <= high",
        ),
        *(
            (lambda key, freeze=freeze: frozen_key(key, freeze), NO_FREEZE)
            for freeze in (-1, 2**64, "never", True, 1.5)
        ),
        (
            lambda key: make_key(2**64, 0, 0, 0),
            "random key: seed: expected .* got 18446744073709551616",
        ),
        (lambda key: make_key(0, 2**64, 0, 0), "random key: stream: "),
        (lambda key: make_key(0, 0, -1, 0), "random key: sample id: .* got -1"),
        (lambda key: make_key(0, 0, 0, -1), "random key: epoch: "),
        (lambda key: make_key(0, 0, 0, 0, 2**48), "random key: visit: "),
        (lambda key: make_key(0, 0, 0, 0, 0, 65536), "random key: view: .* from 0 to 65535"),
    ],
)
def test_misuse_is_named(call, message):
    with pytest.raises(UsageError, match=message):
        call(Key(0, 0, 0, 0, 0))


def test_stream_names_that_just_fit():
    assert check_stream_name("rand_augment/1/rotate") == "rand_augment/1/rotate"
    assert check_stream_name("é" * 127) == "é" * 127
