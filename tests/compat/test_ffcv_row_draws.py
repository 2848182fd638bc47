"""The laws of `np.random` in operations: SciPy's and NumPy's, row by row, plain and compiled."""

import itertools

import numpy as np
import pytest
from drawing_ops import (
    Laws,
    Pythons,
    Sums,
    SumsInList,
)
from ffcv_ops import Distinct
from scipy import stats

from stoker.compat.ffcv.compiled_step import BatchRows, CompiledStep
from stoker.compat.ffcv.field_reading import array_state
from stoker.compat.ffcv.pipeline import Compiler
from stoker.rng.draws import integers, uniform
from stoker.rng.streams import make_key, stream_key

LABELS, IMAGES = array_state((1,), "int64"), array_state((4, 5, 3), "uint8")
ROWS = BatchRows(3, 1, np.arange(6000) * 7)
CHANCES = [0.1, 0.2, 0.3, 0.4]


def step(operation, state=LABELS):
    return CompiledStep(operation, state, f"{type(operation).__name__} of field 'label'", "s")


def labels(rows):
    return np.zeros((len(rows.ids), 1), np.int64)


@pytest.fixture(scope="module")
def table():
    """The numbers of many rows, computed by machine code."""
    np.random.seed(4)
    before = np.random.get_state()[1].tobytes()
    found = step(Laws())(labels(ROWS), ROWS)
    assert np.random.get_state()[1].tobytes() == before
    return found


@pytest.fixture
def drawn(table):
    """Column name -> the rows' numbers."""
    ends = list(itertools.accumulate(Laws.COLUMNS.values()))
    return dict(zip(Laws.COLUMNS, np.split(table, ends[:-1], axis=1), strict=True))


def frequencies_are(rows, expected):
    """Each tuple that a row may be has its probability, and no other occurs."""
    found = dict.fromkeys(expected, 0)
    for row in rows.astype(int).tolist():
        found[tuple(row)] += 1
    wanted = np.array(list(expected.values())) * len(rows)
    return stats.chisquare(list(found.values()), wanted).pvalue > 1e-3


def test_betas_are_beta(drawn):
    assert stats.kstest(drawn["beta"][:, 0], stats.beta(2, 5).cdf).pvalue > 1e-3
    assert stats.kstest(drawn["betas"][:, 0], stats.beta(0.3, 0.4).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(drawn["beta"][:, 0], drawn["betas"][:, 0])[0, 1]) < 0.05


def test_a_choice_without_replacement_is_every_arrangement_alike(drawn):
    every = list(itertools.permutations(range(5), 3))
    assert frequencies_are(drawn["distinct"], dict.fromkeys(every, 1 / len(every)))


def test_a_weighted_choice_without_replacement_is_numpys(drawn):
    """One after the other, each by the probabilities left; NumPy's own draws have the same law."""
    chance = dict(enumerate(CHANCES, 10))
    expected = {
        (a, b): chance[a] * chance[b] / (1 - chance[a])
        for a, b in itertools.permutations(chance, 2)
    }
    assert frequencies_are(drawn["weighted"], expected)
    numpys = np.random.default_rng(0)
    pairs = [numpys.choice(np.arange(10, 14), 2, False, CHANCES) for _ in range(3000)]
    assert frequencies_are(np.array(pairs), expected)


@pytest.mark.parametrize("name", ["permutation", "shuffle"])
def test_orders_are_all_alike(drawn, name):
    every = list(itertools.permutations(range(4)))
    assert frequencies_are(drawn[name], dict.fromkeys(every, 1 / len(every)))


def test_a_weighted_choice_and_what_follows_all_the_others(drawn):
    assert frequencies_are(drawn["choice"], {(i,): CHANCES[i] for i in range(4)})
    assert stats.kstest(drawn["later"][:, 0], stats.uniform.cdf).pvalue > 1e-3


def test_interpreted_is_compiled_row_by_row(table, interpreted):
    some = ROWS._replace(ids=ROWS.ids[[5, 40, 2]])
    assert step(Laws())(labels(some), some).tobytes() == table[[5, 40, 2]].tobytes()


def test_distinct_values_are_distinct_in_the_whole_batch(interpreted):
    rows = ROWS._replace(ids=ROWS.ids[:150])
    images = np.zeros((150, 4, 5, 3), np.uint8)
    got = step(Distinct(), IMAGES)(images, rows)[:, 0, 0, 0]
    assert len(set(got.tolist())) == 150
    assert got.max() < 200


def test_draws_of_a_fixed_number_in_a_loop_are_no_mixing(interpreted):
    for operation in (Sums(), SumsInList()):
        assert step(operation, IMAGES).after == IMAGES
    images = np.zeros((4, 4, 5, 3), np.uint8)
    rows = ROWS._replace(ids=ROWS.ids[:4])
    assert len(set(step(SumsInList(), IMAGES)(images, rows)[:, 0, 0, 0].tolist())) == 4


@pytest.mark.slow
def test_pythons_random_draws_for_the_row_too(monkeypatch):
    """Plain and compiled, each by the row's own draws, with the laws of the functions."""
    rows = ROWS._replace(ids=ROWS.ids[:2000])
    fast = step(Pythons())(labels(rows), rows)
    monkeypatch.setattr(Compiler, "_enabled", False)
    assert step(Pythons())(labels(rows), rows).tobytes() == fast.tobytes()
    keys = [make_key(3, stream_key("s"), int(number), 1) for number in rows.ids]
    assert fast[:, 0].tolist() == [uniform(key, 0) for key in keys]
    assert fast[:, 1].tolist() == [2 + uniform(key, 1) * 3 for key in keys]
    assert fast[:, 2].tolist() == [3 + integers(key, 2, 2) for key in keys]
    assert stats.kstest(fast[:, 3], stats.norm(10, 2).cdf).pvalue > 1e-3
    assert stats.kstest(fast[:, 4], stats.norm.cdf).pvalue > 1e-3
    assert stats.kstest(fast[:, 5], stats.beta(2, 5).cdf).pvalue > 1e-3
    assert set(fast[:, 6]) == {1.5, 2.5, 9.0}
    assert len({tuple(order) for order in fast[:, 7:10]}) == 6
