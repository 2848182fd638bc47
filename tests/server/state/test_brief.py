"""Batches that are little work: few chunks, some ahead of credits, and rests between turns."""

import pytest

from stoker.protocol.messages import Credit, Error, Ready
from stoker.server.state import core_instructions as ins
from stoker.server.state.groups.group_delivery import AHEAD_OF_CREDITS

ROW_S = 1e-5


def finish(rig, worker, row_s=ROW_S):
    claim = rig.claims(worker)[0]
    return rig.finish(worker, seconds=row_s * (claim.row_hi - claim.row_lo))


@pytest.fixture
def rig(make_rig):
    made = make_rig(min_chunk_s=0.0)
    made.up(1, 2)
    return made


@pytest.fixture
def roomy(make_rig):
    """With slots for batches ahead of credits."""
    made = make_rig(min_chunk_s=0.0, ahead_slot_bytes=2**20)
    made.up(1, 2)
    return made


def warm(rig, row_s=ROW_S, workers=(1, 2)):
    """Open a stream, let the core learn what a row costs, and begin an idle run."""
    token = rig.open(batch_size=50, prefetch=4, leases=2)
    rig.run(token, granted=1)
    while not rig.ready(token):
        for worker in workers:
            if rig.claims(worker):
                finish(rig, worker, row_s)
    rig.run(token, run=2, granted=0)
    while busy := [worker for worker in workers if rig.claims(worker)]:
        for worker in busy:
            finish(rig, worker, row_s)
    rig.release(token, *rig.ready(token))
    rig.said.clear()
    return token


def sizes(said):
    works = [work for one in said if isinstance(one, ins.Assign) for work in one.work]
    return [work.row_hi - work.row_lo for work in works]


def test_a_batch_is_one_chunk_where_every_worker_still_has_two(rig):
    token = warm(rig)
    assert sizes(rig.run(token, run=3, granted=4)) == [50] * 6  # the free slots


def test_it_is_cut_where_workers_would_have_none(make_rig):
    rig = make_rig(workers=8, min_chunk_s=0.0)
    rig.up(*range(1, 9))
    token = warm(rig, workers=range(1, 9))
    rig.run(token, run=3, granted=4)
    assert {len(rig.claims(worker)) for worker in range(1, 9)} == {1, 2}


def test_it_is_not_cut_where_few_credits_are_left(roomy):
    token = warm(roomy)
    assert sizes(roomy.run(token, run=3, granted=1)) == [50] * (1 + AHEAD_OF_CREDITS)


def test_a_worker_has_more_chunks_of_brief_batches(roomy):
    rig, token = roomy, warm(roomy)
    rig.run(token, run=3, granted=4)
    assert [len(rig.claims(worker)) for worker in (1, 2)] == [6, 6]
    while rig.claims(1) or rig.claims(2):
        for worker in (1, 2):
            if rig.claims(worker):
                finish(rig, worker, 1e-3)
    rig.release(token, *rig.ready(token))
    rig.run(token, run=4, granted=4)
    assert [len(rig.claims(worker)) for worker in (1, 2)] == [2, 2]


def test_chunks_of_costly_rows_are_as_ever(rig):
    token = warm(rig, row_s=1e-3)
    assert set(sizes(rig.run(token, run=3, granted=4))) == {25}


def test_batches_are_computed_ahead_of_credits_and_announced_against_them(roomy):
    rig, token = roomy, warm(roomy)
    rig.run(token, run=3, granted=2)
    assert rig.counters()["batches_under_way"] == 2 + AHEAD_OF_CREDITS
    for _ in range(2):
        for worker in (1, 2):
            finish(rig, worker)
    assert [one.epoch for one in rig.ready(token)] == [0, 1]
    assert rig.counters()["batches_under_way"] == AHEAD_OF_CREDITS
    rig.send(token, Credit(3, 1))
    assert [one.epoch for one in rig.ready(token)] == [0, 1, 2]


def test_costly_batches_are_not(rig):
    token = warm(rig, row_s=1e-3)
    rig.run(token, run=3, granted=2)
    assert rig.counters()["batches_under_way"] == 2


def test_an_error_ahead_of_credits_waits_for_its_turn(rig):
    token = warm(rig)
    rig.run(token, run=3, granted=2)
    for worker in (1, 2):
        finish(rig, worker)
    for worker in (1, 2):
        rig.fail(worker)
    assert [type(one) for one in rig.sent(token)] == [Ready, Ready]
    rig.send(token, Credit(3, 1))
    assert [type(one) for one in rig.sent(token)] == [Ready, Ready, Error]


def test_no_process_needs_an_answer_while_each_worker_has_a_second_chunk(rig):
    token = warm(rig)
    assert rig.core.rest_s() == 0.0
    rig.run(token, run=3, granted=4)
    assert rig.core.rest_s() == pytest.approx(2 * 50 * ROW_S / 2)
    finish(rig, 1)
    assert rig.core.rest_s() == pytest.approx(50 * ROW_S / 2)
    for _ in range(2):
        finish(rig, 2)
    assert rig.core.rest_s() == 0.0  # it has one chunk left


def test_a_rest_has_a_bound(make_rig):
    rig = make_rig(min_chunk_s=0.0, rest_s=0.0003)
    rig.up(1, 2)
    rig.run(warm(rig), run=3, granted=4)
    assert rig.core.rest_s() == 0.0003


def test_there_is_no_rest_where_rows_are_costly(rig):
    token = warm(rig, row_s=1e-3)
    rig.run(token, run=3, granted=4)
    assert rig.core.rest_s() == 0.0
