"""Batches and ranks: the arithmetic between positions and rows."""

import itertools

import pytest

from stoker.order.compose import dataset_order
from stoker.order.rank_rows import rank_rows, steps_per_epoch


@pytest.mark.parametrize(
    ("rows", "batch", "tail", "steps"),
    [
        (100, 8, "drop", 12),
        (100, 8, "pad", 13),
        (96, 8, "drop", 12),
        (96, 8, "pad", 12),
        (8, 8, "drop", 1),
        (3, 8, "pad", 1),
        (10**12, 256, "drop", 3_906_250_000),
    ],
)
def test_steps_per_epoch(make_spec, rows, batch, tail, steps):
    assert steps_per_epoch(make_spec(rows=rows, batch=batch, tail=tail)) == steps


@pytest.mark.parametrize("rows", [1, 5, 8, 64, 257])
@pytest.mark.parametrize("world", [1, 2, 3, 7, 64])
def test_ranks_share_a_batch_without_gap_or_overlap(rows, world):
    cuts = [rank_rows(rows, rank, world) for rank in range(world)]
    assert cuts[0][0] == 0
    assert cuts[-1][1] == rows
    assert all(a[1] == b[0] for a, b in itertools.pairwise(cuts))
    sizes = [hi - lo for lo, hi in cuts]
    assert max(sizes) - min(sizes) <= 1
    assert cuts == [(rows * r // world, rows * (r + 1) // world) for r in range(world)]


def test_rows_of_a_batch_are_views_of_positions(make_spec):
    order = dataset_order(make_spec(rows=100, batch=4, views=3))
    whole = order.rows(0, 2, 0, 12)
    assert whole.positions.tolist() == [8, 8, 8, 9, 9, 9, 10, 10, 10, 11, 11, 11]
    assert whole.views.tolist() == [0, 1, 2] * 4
    part = order.rows(0, 2, 4, 9)
    for column, one in zip(whole, part, strict=True):
        assert one.tolist() == column[4:9].tolist()
