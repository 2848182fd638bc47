"""Batches and ranks: the arithmetic between positions and rows."""

import itertools

import pytest

from stoker.order.batches import (
    positions,
    rank_rows,
    row_places,
    rows_per_batch,
    steps_per_epoch,
)
from stoker.protocol.errors import UsageError


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


def test_a_drop_that_leaves_no_step_is_refused_with_the_numbers(make_spec):
    with pytest.raises(UsageError) as caught:
        steps_per_epoch(make_spec(rows=7, batch=8))
    assert str(caught.value) == (
        "a global batch of 8 from 7 samples leaves no step when the incomplete batch"
        " is dropped: use a smaller batch size, or drop_last=False"
    )


def test_steps_cover_the_positions_in_order(make_spec):
    spec = make_spec(rows=100, batch=8, tail="pad")
    ranges = [positions(spec, step) for step in range(13)]
    assert ranges[0] == (0, 8)
    assert ranges[-1] == (96, 104)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
    for step in (-1, 13):
        with pytest.raises(UsageError, match=f"step: expected one from 0 to 12, got {step}"):
            positions(spec, step)


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


@pytest.mark.parametrize(("rank", "world"), [(2, 2), (-1, 2), (0, 0)])
def test_a_rank_outside_of_the_world_is_refused(rank, world):
    with pytest.raises(UsageError, match=f"= {world - 1}, got {rank}"):
        rank_rows(8, rank, world)


def test_rows_of_a_batch_are_views_of_positions(make_spec):
    spec = make_spec(rows=100, batch=4, views=3)
    assert rows_per_batch(spec) == 12
    where, view = row_places(spec, 2, 0, 12)
    assert where.tolist() == [8, 8, 8, 9, 9, 9, 10, 10, 10, 11, 11, 11]
    assert view.tolist() == [0, 1, 2] * 4
    part, part_view = row_places(spec, 2, 4, 9)
    assert part.tolist() == where[4:9].tolist()
    assert part_view.tolist() == view[4:9].tolist()
    assert row_places(spec, 2, 5, 5)[0].size == 0
    for lo, hi in [(-1, 3), (0, 13), (5, 4)]:
        with pytest.raises(UsageError, match=f"<= 12, got {lo} and {hi}"):
            row_places(spec, 2, lo, hi)
