"""Recall: urgent chunks that are queued behind a slow row go to another worker."""

import itertools

import pytest

from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev

ROW_S = 0.001
HEAVY_S = 0.05


def finish(rig, worker, row_s=ROW_S):
    claim = rig.claims(worker)[0]
    seconds = row_s * (claim.row_hi - claim.row_lo)
    rig.now += seconds
    return rig.finish(worker, seconds=seconds)


def recalls(said):
    return [(one.worker, one.claim) for one in said if isinstance(one, ins.Recall)]


def recalled(rig, worker):
    """Take the worker's last claim back; return it, and what the core says."""
    work = rig.claims(worker).pop()
    return work, rig.do(ev.Recalled, worker, work.claim)


def warm(rig, *costs):
    """Three batches are under way, of rows that cost so much by turns; both workers have two."""
    token = rig.open(batch_size=16, prefetch=3)
    turn = itertools.cycle(costs)
    for run in range(1, 4):
        rig.run(token, run=run, granted=3)
        while rig.claims(1) or rig.claims(2):
            for worker in (1, 2):
                if rig.claims(worker):
                    finish(rig, worker, next(turn))
        rig.release(token, *rig.ready(token))
        rig.said.clear()
    rig.run(token, run=4, granted=3)


@pytest.fixture
def uneven(rig):
    """Few rows cost fifty others; worker 1 is at one of them."""
    warm(rig, *[ROW_S] * 6, HEAVY_S)
    return rig


def until_recalled(rig):
    """Worker 2 goes on, and worker 1 does not; return what is recalled then."""
    while rig.claims(2):
        if found := recalls(finish(rig, 2, 0.004)):
            return found
    raise AssertionError("nothing was recalled")


def test_what_waits_behind_a_long_row_is_recalled(uneven):
    head, behind = uneven.claims(1)
    assert until_recalled(uneven) == [(1, behind.claim)]
    recalled(uneven, 1)
    after = []
    while uneven.claims(2):
        after.append(uneven.claims(2)[0])
        finish(uneven, 2)
    again = [work for work in after if (work.step, work.row_lo) == (behind.step, behind.row_lo)]
    assert [work.claim > behind.claim for work in again] == [True]
    assert uneven.claims(1)[0] == head
    assert uneven.counters()["recalled_chunks_total"] == 1
    assert uneven.counters()["recomputed_rows_total"] == 0


def test_the_worker_that_stalls_gets_rows_of_the_newest_batch_only(uneven):
    until_recalled(uneven)
    newest = uneven.core._groups.by_number[1].runs[0].pending[-1].step
    recalled(uneven, 1)
    assert {work.step for work in uneven.claims(1)[1:]} <= {newest}


def test_rows_that_cost_alike_are_not_recalled(rig):
    warm(rig, ROW_S)
    said = []
    while rig.claims(2):
        rig.now += HEAVY_S
        said += finish(rig, 2)
    assert not recalls(said)


def test_a_worker_that_has_begun_it_keeps_its_claim(uneven):
    """Nothing came back; the claim ends as any other."""
    until_recalled(uneven)
    missing = uneven.core._groups.by_number[1].runs[0].pending[0].missing
    rows = sum(work.row_hi - work.row_lo for work in uneven.claims(1)[:2])
    uneven.finish(1)
    uneven.finish(1)
    assert uneven.core._groups.by_number[1].runs[0].pending[0].missing == missing - rows
    assert uneven.counters()["recalled_chunks_total"] == 0


def test_news_of_a_claim_of_a_dead_worker_is_old(uneven):
    until_recalled(uneven)
    behind = uneven.claims(1)[-1]
    uneven.die(1)
    unclaimed = uneven.counters()["unclaimed_rows"]
    uneven.do(ev.Recalled, 1, behind.claim)
    assert uneven.counters()["unclaimed_rows"] == unclaimed
    assert uneven.counters()["recalled_chunks_total"] == 0
