"""Runs, credits, order, leases."""

import re

import pytest
from decided import places

from stoker.protocol.messages import Credit, Release, Seek
from stoker.protocol.slot_layout import Output
from stoker.server.state import core_instructions as ins
from stoker.server.state.groups.group_delivery import AHEAD


def test_no_credit_no_batch(rig):
    token = rig.open()
    rig.send(token, Seek(1, 0, 0))
    assert rig.counters()["batches_under_way"] == 0
    rig.send(token, Credit(1, 1))
    assert rig.counters()["batches_under_way"] == 1
    rig.work()
    assert places(rig, token) == [(0, 0)]
    assert rig.counters()["credits"] == 0


def test_at_most_as_many_batches_as_credits_are_under_way(rig):
    token = rig.open(prefetch=4, leases=4)
    rig.run(token, granted=3)
    assert rig.counters()["batches_under_way"] == 3
    assert rig.counters()["filling_slots"] == 3
    assert rig.counters()["free_slots"] == 5
    assert rig.counters()["spare_slots"] == 1


def test_many_credits_begin_little_at_a_time(rig):
    token = rig.open(batch_size=1, prefetch=190, leases=10)
    rig.run(token, granted=190)
    assert rig.counters()["batches_under_way"] == AHEAD
    rig.work()
    assert places(rig, token) == [(i // 50, i % 50) for i in range(190)]


def test_free_slots_bound_what_is_under_way(rig):
    token = rig.open(prefetch=1, leases=1)
    rig.run(token, granted=100)
    assert rig.counters()["batches_under_way"] == 2
    rig.work()
    assert places(rig, token) == [(0, 0), (0, 1)]
    first, second = rig.ready(token)
    rig.release(token, second)
    rig.work()
    third = rig.ready(token)[-1]
    assert (third.slot, third.generation) == (second.slot, second.generation + 1)
    rig.release(token, first, third)
    rig.work()
    assert places(rig, token) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


def test_batches_are_announced_in_order_whatever_is_done_first(make_rig):
    rig = make_rig(workers=2, outstanding=1)
    rig.up(1, 2)
    token = rig.open(batch_size=2, built={"rows": 8})
    rig.run(token, granted=3)
    slow = rig.claims(1)[0]
    assert (slow.step, slow.row_lo) == (0, 0)
    while rig.claims(2):
        rig.finish(2)
    assert places(rig, token) == []
    assert rig.counters()["ready_slots"] == 2
    said = rig.finish(1)
    (sent,) = [one for one in said if isinstance(one, ins.Send)]
    assert [(b.epoch, b.step) for b in sent.records] == [(0, 0), (0, 1), (0, 2)]


def test_seek_voids_what_is_not_announced_and_keeps_what_is(make_rig):
    rig = make_rig(workers=2, outstanding=1)
    rig.up(1, 2)
    token = rig.open(batch_size=2, built={"rows": 20})
    rig.run(token, granted=3)
    rig.finish(1)
    rig.finish(2)
    assert places(rig, token) == [(0, 0)]
    assert {(w.step, w.row_lo) for n in (1, 2) for w in rig.claims(n)} == {(1, 0), (1, 1)}
    rig.finish(2)
    assert (rig.claims(2)[0].step, rig.claims(2)[0].row_lo) == (2, 0)
    rig.send(token, Seek(5, 3, 1))
    counters = rig.counters()
    assert counters["leased_slots"] == 1
    assert counters["cancelled_slots"] == 2, "claims on them are under way"
    assert counters["unclaimed_rows"] == 0
    assert counters["credits"] == 0
    rig.send(token, Credit(1, 9), Credit(5, 2))
    assert rig.counters()["credits"] == 2
    rig.work()
    assert places(rig, token) == [(0, 0), (3, 1), (3, 2)]
    assert [b.run for b in rig.ready(token)] == [1, 5, 5]
    counters = rig.counters()
    assert counters["voided_rows_total"] == 2
    assert counters["cancelled_slots"] == 0
    assert counters["leased_slots"] == 3
    rig.release(token, *rig.ready(token))
    assert rig.counters()["leased_slots"] == 0
    assert rig.counters()["stale_releases_total"] == 0


def test_seek_frees_ready_slots_at_once(make_rig):
    rig = make_rig(workers=2, outstanding=1)
    rig.up(1, 2)
    token = rig.open(batch_size=2, built={"rows": 20})
    rig.run(token, granted=2)
    rig.finish(2)
    rig.finish(2)
    rig.finish(2)
    assert rig.counters()["ready_slots"] == 1
    rig.send(token, Seek(2, 0, 0))
    counters = rig.counters()
    assert (counters["ready_slots"], counters["cancelled_slots"], counters["free_slots"]) == (
        0,
        1,
        4,
    )


def test_stale_releases_change_nothing(rig):
    token = rig.open()
    rig.run(token, granted=2)
    rig.work()
    first, second = rig.ready(token)
    stale = [
        (first.slot, first.generation + 1),
        (first.slot, 0),
        (99, 1),
        (2**24, 2**48),
        (5, 0),  # the spare
        (second.slot, first.generation - 1),
    ]
    rig.send(token, Release(stale))
    assert rig.counters()["stale_releases_total"] == 6
    assert rig.counters()["leased_slots"] == 2
    rig.release(token, first)
    rig.release(token, first)
    assert rig.counters()["stale_releases_total"] == 7


def test_a_session_cannot_release_the_slots_of_another(rig):
    token, other = rig.open(), rig.open()
    rig.run(token, granted=1)
    rig.run(other, granted=1)
    rig.work()
    (mine,) = rig.ready(token)
    rig.release(other, mine)
    rig.release(other, mine)
    assert rig.counters()["leased_slots"] == 1
    assert rig.counters()["stale_releases_total"] == 1, "once it was its own slot"


def test_runs_count_up(rig):
    token = rig.open()
    rig.run(token, run=4, granted=1)
    for run in (4, 3, 0):
        rig.send(token, Seek(run, 1, 1))
        error = rig.errors(token)[-1]
        assert (error.code, error.run) == ("protocol", None)
        assert error.message == f"SEEK: expected a run above 4, got {run}; runs must increase"
    rig.work()
    assert places(rig, token) == [(0, 0)]


def test_the_end_of_an_epoch_is_the_beginning_of_the_next(rig):
    token = rig.open()
    rig.run(token, epoch=6, step=3, granted=1)
    rig.work()
    assert places(rig, token) == [(7, 0)]


def test_a_step_beyond_the_epoch(rig):
    token = rig.open()
    rig.run(token, run=2, epoch=1, step=4)
    (error,) = rig.errors(token)
    assert (error.code, error.run) == ("usage", 2)
    assert "expected a step from 0 to 3, the number of steps of an epoch, got 4" in error.message
    assert error.details == {"epoch": 1, "step": 4}
    rig.run(token, run=3, epoch=1, step=2, granted=1)
    rig.work()
    assert places(rig, token) == [(1, 2)]


def test_credits_of_another_run_are_void(rig):
    token = rig.open()
    rig.send(token, Seek(1, 0, 0), Credit(0, 5), Credit(2, 5))
    assert rig.counters()["credits"] == 0


def test_credits_are_bounded(rig):
    token = rig.open()
    rig.send(token, Seek(1, 0, 0), *[Credit(1, 2**24)] * 100)
    assert rig.counters()["credits"] <= 2**48


@pytest.mark.parametrize("way", ["close", "lifeline"])
def test_a_session_that_ends_frees_its_slab_after_its_last_claim(rig, way):
    token, other = rig.open(), rig.open()
    rig.run(token, granted=3)
    assert rig.claims(1)
    said = rig.end(token, way)
    assert ins.EndSession(token) in said
    assert not [one for one in said if isinstance(one, ins.FreeSlab)]
    assert rig.counters()["unclaimed_rows"] == 0
    left = [(worker, claim) for worker in (1, 2) for claim in rig.claims(worker)]
    for worker, _ in left[:-1]:
        assert rig.finish(worker) == []
    said = rig.finish(left[-1][0])
    assert said == [ins.ForgetStream(1, 1, 1), ins.ForgetStream(2, 1, 1), ins.FreeSlab(1)]
    assert rig.counters()["groups"] == 1
    rig.run(other, granted=1)
    rig.work()
    assert len(rig.ready(other)) == 1


TOLD = (
    Output("image", "uint8", (8, 8, 3), "image", (), "pad", (0, 1)),
    Output("image.size", "int64", (2,), "size"),
    Output("label", "int64", ()),
)


def shapes_of(batch):
    return {placed.name: placed.shape for placed in batch.outputs}


def work_telling(rig, shapes_of_step):
    """Let both workers finish all, telling shapes by the step."""
    while busy := [worker for worker in (1, 2) if rig.claims(worker)]:
        for worker in busy:
            rig.finish(worker, shapes=shapes_of_step[rig.claims(worker)[0].step])


def test_each_batch_has_the_shape_that_its_workers_told(rig):
    token = rig.open(built={"outputs": TOLD})
    rig.run(token, granted=2)
    work_telling(rig, {0: ((5, 8, 3),), 1: ((8, 2, 3),)})
    first, second = rig.ready(token)
    assert shapes_of(first)["image"] == (16, 5, 8, 3)
    assert shapes_of(second)["image"] == (16, 8, 2, 3)
    assert {shapes_of(batch)["label"] for batch in (first, second)} == {(16,)}
    offsets = [[placed.offset for placed in batch.outputs] for batch in (first, second)]
    assert offsets[0] == offsets[1], "an output never moves"


@pytest.mark.parametrize("other", [((6, 8, 3),), (), ((9, 8, 3),)])
def test_workers_that_disagree_on_a_shape_end_the_run(rig, other):
    token = rig.open(built={"outputs": TOLD})
    rig.run(token, granted=1)
    rig.finish(1, shapes=((5, 8, 3),))
    rig.finish(2, shapes=other)
    work_telling(rig, {0: ((5, 8, 3),)})
    assert rig.ready(token) == []
    (error,) = rig.errors(token)
    assert (error.run, error.code) == (1, "usage")
    assert "two workers disagree on the shapes of a batch, ((5, 8, 3),) and " in error.message
    assert rig.counters()["batches_under_way"] == 0


@pytest.mark.parametrize(
    ("shapes", "said"), [((), "got 0"), (((9, 8, 3),), r"at most \(8, 8, 3\)")]
)
def test_shapes_that_no_slot_holds_end_the_run(rig, shapes, said):
    token = rig.open(built={"outputs": TOLD})
    rig.run(token, granted=1)
    work_telling(rig, {0: shapes})
    assert rig.ready(token) == []
    (error,) = rig.errors(token)
    assert re.search(said, error.message)
