"""Scheduling: the rows that each worker gets."""

from math import ceil

import pytest

from stoker.protocol.messages import Seek
from stoker.server.state import core_instructions as ins
from stoker.server.state.served_streams import PROBE_ROWS


def warm(rig, token, row_s=0.01):
    """Let the core learn what a row costs, then begin a fresh run."""
    rig.run(token, granted=1)
    while rig.claims(1) or rig.claims(2):
        for worker in (1, 2):
            if rig.claims(worker):
                claim = rig.claims(worker)[0]
                rig.finish(worker, seconds=row_s * (claim.row_hi - claim.row_lo))
    rig.release(token, *rig.ready(token))


def given(said):
    """Claims in the order in which they were made."""
    assigned = [one for one in said if isinstance(one, ins.Assign)]
    pairs = [(one.worker, work) for one in assigned for work in one.work]
    return sorted(pairs, key=lambda pair: pair[1].claim)


def sizes(said):
    return [work.row_hi - work.row_lo for _, work in given(said)]


def test_chunks_are_small_until_the_cost_is_known(rig):
    token = rig.open(batch_size=50)
    assert sizes(rig.run(token, granted=1)) == [PROBE_ROWS] * 4


def test_chunks_get_smaller_towards_the_end_of_a_step(rig):
    token = rig.open(batch_size=50)
    warm(rig, token)
    said = rig.run(token, run=2, granted=1)
    got = sizes(said)
    while rig.claims(1) or rig.claims(2):
        for worker in (1, 2):
            if rig.claims(worker):
                got += sizes(rig.finish(worker))
    unclaimed, expected = 50, []
    while unclaimed:
        expected.append(ceil(unclaimed / 2))
        unclaimed -= expected[-1]
    assert got == expected


def test_shares_are_equal_while_later_steps_wait(rig):
    token = rig.open(batch_size=50)
    warm(rig, token)
    assert sizes(rig.run(token, run=2, granted=2)) == [25, 25, 25, 13]


def test_a_chunk_is_at_least_two_milliseconds_of_work(rig):
    token = rig.open(batch_size=50)
    warm(rig, token, row_s=0.0001)
    assert sizes(rig.run(token, run=2, granted=1)) == [25, 20, 5]


def test_a_chunk_is_never_a_hang(rig):
    token = rig.open(batch_size=50)
    warm(rig, token, row_s=10.0)
    assert sizes(rig.run(token, run=2, granted=1)) == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("row_s", "expected"), [(0.01, [27, 12, 6, 3, 3]), (10.0, [1, 1, 1, 1]), (3.0, [3, 3, 3, 3])]
)
def test_views_of_a_position_stay_together(rig, row_s, expected):
    """Also where a chunk may not be large; unless it may not even have one position."""
    token = rig.open(batch_size=17, views=3)
    warm(rig, token, row_s=row_s)
    got = sizes(rig.run(token, run=2, granted=1))
    while len(got) < len(expected):
        for worker in (1, 2):
            if rig.claims(worker):
                got += sizes(rig.finish(worker, seconds=row_s))
    assert got == expected


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_senseless_measurement_is_left_out(rig, seconds):
    token = rig.open(batch_size=50)
    rig.run(token, granted=1)
    assert sizes(rig.finish(1, seconds=seconds)) == [PROBE_ROWS]


def test_each_worker_has_at_most_so_many_claims(make_rig):
    rig = make_rig(outstanding=3)
    rig.up(1, 2)
    token = rig.open(batch_size=50)
    rig.run(token, granted=1)
    assert [len(rig.claims(worker)) for worker in (1, 2)] == [3, 3]
    assert [worker for worker, _ in given(rig.finish(2))] == [2]


def test_claims_go_to_who_has_fewest(make_rig):
    rig = make_rig(workers=3, outstanding=2)
    rig.up(1, 2, 3)
    token = rig.open(batch_size=5)
    rig.run(token, granted=1)
    assert [len(rig.claims(worker)) for worker in (1, 2, 3)] == [2, 1, 1]


def test_a_worker_that_comes_up_gets_work_at_once(make_rig):
    rig = make_rig()
    token = rig.open()
    rig.run(token, granted=1)
    assert not rig.claims(1)
    rig.up(2)
    assert len(rig.claims(2)) == 2
    rig.up(2)
    assert len(rig.claims(2)) == 2
    assert rig.counters()["workers_up"] == 1


def test_groups_take_turns(rig):
    tokens = [rig.open(batch_size=50) for _ in range(3)]
    for token in tokens:
        rig.run(token, granted=1)
    order = [work.stream for _, work in given(rig.said)]
    assert order == [1, 1, 1, 1]  # it was alone
    for _ in range(6):
        order += [work.stream for worker in (1, 2) for _, work in given(rig.finish(worker))]
    assert order[4:] == [1, 2, 3] * 4


def test_a_test_may_say_how_many_rows_a_chunk_has(make_rig):
    """Before the cost is known, and after it; the last one has what is left."""
    rig = make_rig(chunk_rows=3)
    rig.up(1, 2)
    token = rig.open(batch_size=16)
    warm(rig, token)
    warm(rig, token, row_s=1e-6)
    assert sizes(rig.said) == 2 * ([3] * 5 + [1])


def test_the_earliest_step_comes_first(rig):
    token = rig.open(batch_size=16)
    rig.run(token, granted=3)
    steps = [work.step for _, work in given(rig.said)]
    for _ in range(20):
        for worker in (1, 2):
            if rig.claims(worker):
                steps += [work.step for _, work in given(rig.finish(worker))]
    assert steps == sorted(steps)
    assert set(steps) == {0, 1, 2}


def test_a_worker_hears_of_a_stream_once_and_before_its_claims(rig):
    token = rig.open()
    said = rig.run(token, granted=3)
    assert [type(one).__name__ for one in said] == ["TellStream", "TellStream", "Assign", "Assign"]
    rig.work()
    rig.send(token, Seek(2, 0, 0))
    rig.run(token, run=3)
    assert len([one for one in rig.said if isinstance(one, ins.TellStream)]) == 2


def test_claims_cover_each_row_once_and_are_numbered(rig):
    token = rig.open(batch_size=50)
    rig.run(token, granted=1)
    rig.work()
    works = [work for _, work in given(rig.said)]
    rows = [row for work in works for row in range(work.row_lo, work.row_hi)]
    assert rows == list(range(50))
    assert [work.claim for work in works] == list(range(1, len(works) + 1))
