"""Delivery in order keeps workers busy where few rows cost most of the time."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from stoker.client.options.delivery_options import MOST_CHOSEN

ROWS = 400 * 128
TURN_S = 5e-4


@pytest.fixture(scope="module")
def virtual_time() -> Iterator[ModuleType]:
    path = Path(__file__).parents[3] / "benchmarks" / "virtual_time.py"
    spec = importlib.util.spec_from_file_location("stoker_virtual_time", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def heavy() -> np.ndarray:
    """A millisecond each, except 1.5 in a hundred that take fifty."""
    return np.where(np.random.default_rng(5).random(ROWS) < 0.015, 0.05, 0.001)


def test_the_model_agrees_with_what_can_be_counted(virtual_time) -> None:
    even = np.full(512, 0.001)
    assert virtual_time.scheduled(even, 1, 32)[0] == pytest.approx(1.0)
    assert virtual_time.row_by_row(even, 4, 32) == pytest.approx(1.0)
    # Two workers, one batch at a time: the worker of the short row waits for the long one.
    assert virtual_time.row_by_row([3.0, 1.0] * 5, 2, 2, prefetch=1) == pytest.approx(4 / 6)


@pytest.mark.parametrize(("workers", "least"), [(2, 0.98), (4, 0.98), (8, 0.98)])
def test_heavy_rows_hold_up_few_others(virtual_time, heavy, workers, least) -> None:
    share, _ = virtual_time.scheduled(heavy, workers, 128, turn_s=TURN_S)
    assert least < share <= virtual_time.row_by_row(heavy, workers, 128) + 1e-9


def test_the_prefetch_that_is_chosen_by_default_hides_heavy_rows(virtual_time, heavy) -> None:
    """The figures are in docs/decisions.md."""
    shares = [
        virtual_time.scheduled(heavy[:6400], 16, 32, prefetch=prefetch, turn_s=TURN_S)[0]
        for prefetch in (4, MOST_CHOSEN)
    ]
    assert shares[0] < 0.5
    assert shares[1] > 0.85


@pytest.mark.parametrize("workers", [2, 8])
def test_rows_that_cost_alike_are_cut_into_equal_shares(virtual_time, workers) -> None:
    costs = np.random.default_rng(6).uniform(0.0005, 0.0015, ROWS)
    share, chunks = virtual_time.scheduled(costs, workers, 128, turn_s=TURN_S)
    assert share > 0.98
    assert chunks < 1.2 * workers
