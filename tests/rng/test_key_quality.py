"""A million keys: no more collisions than chance has, and neighbors are strangers.

Keys that lie next to each other in any of their parts (seed, stream, id, epoch, visit, view) are
what a training makes. Their first words must be as words of unrelated keys: collisions within the
birthday bound, pairs of neighbors spread evenly over a table, half of the bits flipped.
"""

import numpy as np
import pytest

from stoker.jit import compiled, kernel
from stoker.rng.draws import word
from stoker.rng.streams import make_key

COUNT = 1_000_000
PARTS = ("seed", "stream", "id", "epoch", "visit", "view")
MOST_VIEWS = 2**16


@kernel
def first_words(start, steps, out):
    """Write word 0 of draw 0 of the keys at start, start + steps, start + 2 * steps, ..."""
    for i in range(out.size):
        n = np.uint64(i)
        key = make_key(
            start[0] + n * steps[0],
            start[1] + n * steps[1],
            start[2] + n * steps[2],
            start[3] + n * steps[3],
            start[4] + n * steps[4],
            start[5] + n * steps[5],
        )
        out[i] = word(key, 0, 0)


@pytest.fixture(scope="module")
def words():
    """First words of keys that differ in one part: words(part, count)."""

    def make(part, count=COUNT):
        start = np.array([7, 2**63 + 11, 1000, 3, 0, 0], np.uint64)
        steps = np.zeros(6, np.uint64)
        steps[PARTS.index(part)] = 1
        out = np.zeros(count, np.uint64)
        compiled(first_words)(start, steps, out)
        return out

    return make


def collisions(values):
    ordered = np.sort(values)
    return int((ordered[1:] == ordered[:-1]).sum())


@pytest.mark.parametrize("part", ["seed", "stream", "id", "epoch", "visit"])
def test_a_million_keys_collide_as_often_as_chance_has_it(words, part):
    values = words(part)
    assert collisions(values) == 0  # of 64 bits one is expected in 37 million such tests
    expected = COUNT * (COUNT - 1) / 2 / 2**32
    for half in (values >> np.uint64(32), values & np.uint64(2**32 - 1)):
        assert abs(collisions(half) - expected) < 5 * expected**0.5


def test_keys_of_all_parts_together_collide_no_more(words):
    values = np.concatenate([words(part, 60_000) for part in PARTS])
    first = words("id", 1)
    # Every part's series begins with one and the same key.
    assert collisions(values) == len(PARTS) - 1
    assert (values == first[0]).sum() == len(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_neighbors_are_strangers(words, part):
    values = words(part, min(COUNT, MOST_VIEWS if part == "view" else COUNT))
    left, right = values[:-1], values[1:]
    for shift in (0, 30, 60):
        cells = (left >> np.uint64(shift) & np.uint64(15)) * np.uint64(16)
        cells += right >> np.uint64(shift) & np.uint64(15)
        counts = np.bincount(cells.astype(np.int64), minlength=256)
        expected = left.size / 256
        chi = float(((counts - expected) ** 2).sum() / expected)
        # 255 degrees of freedom: mean 255, standard deviation 22.6.
        assert 255 - 5 * 22.6 < chi < 255 + 5 * 22.6, (shift, chi)
    flipped = np.bitwise_count(left ^ right)
    assert abs(flipped.mean() - 32) < 5 * 4 / left.size**0.5
    assert abs(flipped.var() - 16) < 0.5
