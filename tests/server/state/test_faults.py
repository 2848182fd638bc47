"""Workers that die, hang, fail or do not start."""

import pytest
from decided import of, places

from stoker.order.compose import dataset_order
from stoker.protocol.messages import Close, Credit, Opened, Seek
from stoker.protocol.spec import StreamSpec
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev
from stoker.server.state.core_context import backoff_s
from stoker.server.state.served_streams import MAX_SUSPECTS
from stoker.server.state.settings import Settings
from stoker.server.work.work_records import Done


@pytest.fixture
def lone(make_rig):
    """One worker at a time with one claim at a time."""
    rig = make_rig(workers=1, outstanding=1)
    rig.up(1)
    return rig


def replace(rig, number):
    """The next worker comes up, after its pause."""
    if ins.StartWorker(number) not in rig.said:
        rig.tick(40)
    assert ins.StartWorker(number) in rig.said
    rig.up(number)


def test_rows_of_a_dead_worker_are_claimed_first_and_delivered(rig):
    token = rig.open(batch_size=50, built={"rows": 50})
    rig.run(token, granted=1)
    rig.finish(1)
    lost = [(w.row_lo, w.row_hi) for w in rig.claims(1)]
    said = rig.die(1)
    assert ins.StartWorker(3) in said
    rig.finish(2)
    redone = [(w.row_lo, w.row_hi) for w in rig.claims(2)][-1]
    assert redone[0] in [lo for lo, _ in lost]
    rig.up(3)
    rig.work((2, 3))
    assert places(rig, token) == [(0, 0)]
    rows = sum(hi - lo for lo, hi in lost)
    assert rig.counters()["recomputed_rows_total"] == rows
    assert rig.counters()["rows_total"] == 50
    assert rig.counters()["worker_deaths_total"] == 1
    assert rig.counters()["workers"] == 2


def test_a_dead_worker_leaves_a_slot_that_nobody_wants_any_more(lone):
    token = lone.open()
    lone.run(token, granted=1)
    lone.send(token, Seek(2, 0, 0))
    assert lone.counters()["cancelled_slots"] == 1
    lone.die(1)
    assert lone.counters()["cancelled_slots"] == 0
    assert lone.counters()["recomputed_rows_total"] == 0


def test_results_of_a_worker_that_is_dead_count_no_more(lone):
    token = lone.open()
    lone.run(token, granted=1)
    (claim,) = lone.claims(1)
    lone.die(1)
    lone.do(ev.ChunkDone, 1, Done(claim.claim, 0.1, 0))
    lone.do(ev.ChunkFailed, 1, claim.claim, claim.stream, "sample", "bad", {})
    assert lone.counters()["stale_results_total"] == 2
    assert lone.counters()["rows_total"] == 0
    assert lone.do(ev.WorkerDown, 1, "again", False) == []


def test_after_a_blamed_death_the_row_is_claimed_alone(lone):
    token = lone.open()
    lone.run(token, granted=1)
    lone.finish(1)
    (claim,) = lone.claims(1)
    assert (claim.row_lo, claim.row_hi) == (4, 16)
    lone.die(1, blame=True, row=7)
    lone.up(2)
    got = []
    while lone.claims(2):
        got.append((lone.claims(2)[0].row_lo, lone.claims(2)[0].row_hi))
        lone.finish(2)
    assert (7, 8) in got
    assert not [1 for lo, hi in got if lo < 7 < hi or lo <= 7 < hi - 1]
    assert got[:3] == [(4, 7), (7, 8), (8, 16)]
    assert places(lone, token) == [(0, 0)]


def test_a_row_that_killed_twice_stops_its_stream_for_all(rig):
    tokens = [rig.open(rank=rank, world_size=2) for rank in (0, 1)]
    other = rig.open(seed=8)
    rig.run(tokens[0], granted=1)
    spec = StreamSpec.from_data(of(rig.sent(tokens[0]), Opened)[0].spec)
    rig.die(1, blame=True, row=1)
    rig.run(tokens[1], granted=1)
    rig.finish(2)
    rig.run(other, granted=1)
    rig.tick(40)
    rig.up(3)
    alone = next(n for n in (2, 3) for w in rig.claims(n) if (w.row_lo, w.row_hi) == (1, 2))
    while rig.claims(alone)[0].row_hi != 2:
        rig.finish(alone)
    rig.die(alone, blame=True)
    for token in tokens:
        (error,) = rig.errors(token)
        assert (error.code, error.run) == ("stream_stopped", 1)
        sample = int(dataset_order(spec).rows(0, 0, 1, 2).ids[0])
        assert error.details == {"epoch": 0, "step": 0, "row": 1, "id": sample}
        assert f"row 1 of epoch 0, step 0 (sample {sample} of dataset" in error.message
        assert "killed or hung a worker 2 times, the last: signal 11" in error.message
        assert error.message.endswith(f"leave it out: Loader(exclude=[{sample}])")
        assert [one.bad[0].id for one in of(rig.said, ins.Quarantine)] == [sample]
        rig.run(token, run=2, epoch=5)
        assert rig.errors(token)[-1].run == 2
        assert rig.errors(token)[-1].code == "stream_stopped"
    rig.tick(40)
    rig.up(4)
    rig.work(tuple({2, 3, 4} - {alone}))
    assert not rig.errors(other)
    assert places(rig, other) == [(0, 0)]
    for token in tokens:
        rig.send(token, Close())
    rig.open()
    assert rig.counters()["streams"] == 2, "a new session may try again"


def test_a_row_that_was_done_is_acquitted(lone):
    token = lone.open(batch_size=1)
    lone.run(token, granted=1)
    lone.die(1, blame=True)
    replace(lone, 2)
    lone.finish(2)
    lone.run(token, run=2, granted=1)
    lone.die(2, blame=True)
    assert not lone.errors(token)


def test_deaths_without_blame_count_to_a_high_limit(lone):
    token = lone.open(batch_size=8)
    lone.run(token, granted=1)
    for number in range(1, 9):
        assert not lone.errors(token)
        assert lone.claims(number)[0].row_hi == 4, "no suspicion, no isolation"
        lone.die(number, row=2)
        if number < 8:
            replace(lone, number + 1)
    (error,) = lone.errors(token)
    assert error.code == "stream_stopped"
    assert error.details["row"] == 2
    assert "killed or hung a worker 8 times" in error.message


def test_a_claim_that_killed_at_an_unknown_row_is_halved(lone):
    token = lone.open(batch_size=8)
    lone.run(token, granted=1)
    tried = []
    for number in range(1, 20):
        claim = lone.claims(number)[0]
        while not claim.row_lo <= 2 < claim.row_hi:
            lone.finish(number)
            claim = lone.claims(number)[0]
        tried.append((claim.row_lo, claim.row_hi))
        lone._claims[number] = []
        lone.do(ev.WorkerDown, number, "signal 11", True, claim.claim, None)
        if lone.errors(token):
            break
        replace(lone, number + 1)
    assert tried == [(0, 4), (2, 4), (2, 3), (2, 3)]
    assert lone.errors(token)[0].details["row"] == 2


def test_a_row_outside_of_the_claim_accuses_nobody(lone):
    token = lone.open(batch_size=8)
    lone.run(token, granted=1)
    lone.die(1, blame=True, row=77)
    replace(lone, 2)
    assert (lone.claims(2)[0].row_lo, lone.claims(2)[0].row_hi) == (0, 2)


def test_suspects_are_bounded(lone):
    token = lone.open(batch_size=1)
    lone.run(token, granted=1)
    stream = lone.core._groups.by_number[1].stream
    for step in range(2 * MAX_SUSPECTS):
        stream.accuse((0, step, 0), True)
    assert len(stream.suspects) == MAX_SUSPECTS


def test_a_worker_that_hangs_is_killed_and_blamed(make_rig):
    rig = make_rig(workers=1, claim_deadline_s=60)
    rig.up(1)
    token = rig.open()
    rig.run(token, granted=1)
    rig.now += 59
    rig.finish(1)  # the clock of the next claim begins here
    assert not of(rig.tick(60), ins.KillWorker)
    head = rig.claims(1)[0]
    said = rig.tick(1)
    (kill,) = of(said, ins.KillWorker)
    assert kill.worker == 1
    assert kill.reason == (
        f"at rows {head.row_lo} to {head.row_hi} of epoch 0, step 0 for more than 60 s"
    )
    assert not of(rig.tick(1), ins.KillWorker)
    assert rig.counters()["worker_hangs_total"] == 1
    said = rig.die(1, row=head.row_lo + 1)
    rig.up(2)
    got = [(w.row_lo, w.row_hi) for w in rig.claims(2)]
    assert got == [(head.row_lo, head.row_lo + 1), (head.row_lo + 1, head.row_lo + 2)]


def test_a_hang_at_the_same_row_twice_stops_the_stream(lone):
    token = lone.open(batch_size=1)
    lone.run(token, granted=1)
    for number in (1, 2):
        lone.tick(61)
        lone.die(number)  # killed by the test, which blames no row
        if number == 1:
            replace(lone, 2)
    assert lone.errors(token)[0].code == "stream_stopped"


def test_a_killed_worker_gets_no_work(make_rig):
    rig = make_rig(workers=2, outstanding=1)
    rig.up(1, 2)
    token = rig.open(batch_size=50)
    rig.run(token, granted=1)
    rig.now += 40
    rig.finish(2)
    rig.tick(21)
    assert of(rig.said, ins.KillWorker)[-1].worker == 1
    assert len(rig.claims(1)) == 1
    rig.finish(1)  # it was only slow
    assert not rig.claims(1)
    rig.work((2,))
    assert places(rig, token) == [(0, 0)]


def undead(rig, token):
    """Worker 1 hangs at the first claim and is not seen dead in time."""
    rig.run(token, granted=2)
    rig.now += 40
    rig.finish(2)
    rig.tick(21)
    assert of(rig.said, ins.KillWorker)[-1].worker == 1
    rig.tick(5)
    return rig.tick(0.5)


def test_the_slot_of_a_worker_that_does_not_die_is_retired(make_rig):
    rig = make_rig(workers=2, outstanding=2)
    rig.up(1, 2)
    token = rig.open(batch_size=16, prefetch=1, leases=1)
    said = undead(rig, token)
    assert ins.StartWorker(3) in said
    counters = rig.counters()
    assert (counters["retired_slots"], counters["spare_slots"]) == (1, 0)
    assert counters["retired_slots_total"] == 1
    head = rig.claims(1)[0]
    rig.up(3)
    rig.work((2, 3))
    first, second = rig.ready(token)
    assert (first.step, second.step) == (0, 1)
    assert head.slot not in (first.slot, second.slot)
    assert first.slot == 2, "the spare"
    lone = [(w.row_lo, w.row_hi) for o in of(rig.said, ins.Assign) for w in o.work if w.slot == 2]
    assert (head.row_lo, head.row_hi) in lone, "tried again, without suspicion"
    rig.do(ev.ChunkDone, 1, Done(head.claim, 1.0, 0))
    assert rig.counters()["stale_results_total"] == 1
    assert rig.counters()["retired_slots"] == 1
    rig.do(ev.WorkerDown, 1, "signal 9", False)
    counters = rig.counters()
    assert (counters["retired_slots"], counters["spare_slots"]) == (0, 1)
    assert counters["workers"] == 2
    assert not rig.errors(token)


def test_a_slab_with_an_undead_writer_is_freed_once_it_is_dead(make_rig):
    rig = make_rig(workers=2)
    rig.up(1, 2)
    token = rig.open()
    undead(rig, token)
    rig.send(token, Close())
    rig.work((2,))
    assert not of(rig.said, ins.FreeSlab)
    assert rig.counters()["memory_used_bytes"] > 0
    said = rig.do(ev.WorkerDown, 1, "signal 9", False)
    assert of(said, ins.FreeSlab) == [ins.FreeSlab(1)]
    assert of(said, ins.ForgetStream) == [ins.ForgetStream(2, 1, 1)]


def test_two_undead_workers_are_one_too_many(make_rig):
    rig = make_rig(workers=2, outstanding=1)
    rig.up(1, 2)
    token = rig.open(batch_size=1, prefetch=2)
    rig.run(token, granted=2)
    assert [rig.claims(n)[0].slot for n in (1, 2)] == [0, 1]
    rig.tick(61)
    rig.tick(6)
    (error,) = rig.errors(token)
    assert (error.code, error.run) == ("resource", 1)
    assert "slab 1: two workers that were killed cannot be confirmed dead" in error.message
    assert rig.counters()["retired_slots"] == 2
    rig.run(token, run=2)
    assert rig.errors(token)[-1].run == 2
    rig.send(token, Close())
    rig.do(ev.WorkerDown, 1, "signal 9", False)
    assert of(rig.do(ev.WorkerDown, 2, "signal 9", False), ins.FreeSlab) == [ins.FreeSlab(1)]


def test_two_undead_workers_at_one_slot_need_one_spare(make_rig):
    rig = make_rig(workers=2, outstanding=1)
    rig.up(1, 2)
    token = rig.open(batch_size=16)
    rig.run(token, granted=1)
    assert {rig.claims(n)[0].slot for n in (1, 2)} == {0}
    rig.tick(61)
    rig.tick(6)
    assert not rig.errors(token)
    assert rig.counters()["retired_slots"] == 1
    rig.up(3)
    rig.work((3,))
    assert places(rig, token) == [(0, 0)]


def test_an_undead_writer_of_a_voided_slot(make_rig):
    rig = make_rig(workers=2, outstanding=1)
    rig.up(1, 2)
    token = rig.open(batch_size=1, prefetch=1, leases=1)
    rig.run(token, granted=2)
    rig.send(token, Seek(2, 0, 0), Credit(2, 2))
    assert rig.counters()["cancelled_slots"] == 2
    rig.now += 40
    rig.finish(2)
    rig.tick(21)
    rig.tick(6)
    assert rig.counters()["retired_slots"] == 1
    assert rig.counters()["batches_under_way"] == 2, "the spare is used"
    rig.work((2,))
    assert places(rig, token) == [(0, 0), (0, 1)]


def test_a_failed_chunk_ends_the_run_in_its_turn(make_rig):
    rig = make_rig(workers=2, outstanding=1)
    rig.up(1, 2)
    token = rig.open(batch_size=1)
    rig.run(token, granted=3)
    assert [rig.claims(n)[0].step for n in (1, 2)] == [0, 1]
    rig.fail(2)
    assert not rig.errors(token), "step 0 comes first"
    assert rig.counters()["batches_under_way"] == 2, "step 2 is not begun any more"
    assert not rig.claims(2)
    said = rig.finish(1)
    (sent,) = [one for one in said if isinstance(one, ins.Send) and len(one.records) == 1][:1]
    assert [type(r).__name__ for o in of(said, ins.Send) for r in o.records] == ["Ready", "Error"]
    assert sent.token == token
    (error,) = rig.errors(token)
    assert (error.code, error.message, error.run, error.request) == ("sample", "bad sample", 1, 0)
    assert error.details == {"id": 3}
    counters = rig.counters()
    assert (counters["batches_under_way"], counters["unclaimed_rows"]) == (0, 0)
    rig.send(token, Credit(1, 5))
    assert rig.counters()["batches_under_way"] == 0
    rig.run(token, run=2, step=2, granted=1)
    rig.work()
    assert places(rig, token) == [(0, 0), (0, 2)]


def test_the_first_bad_row_of_a_batch_is_the_one_that_is_told(make_rig):
    rig = make_rig(workers=2, outstanding=2)
    rig.up(1, 2)
    token = rig.open(batch_size=16)
    rig.run(token, granted=1)
    claims = sorted((w.row_lo, n) for n in (1, 2) for w in rig.claims(n))
    assert [lo for lo, _ in claims] == [0, 4, 8, 12]
    assert [n for _, n in claims] == [1, 2, 1, 2]
    rig.finish(2)  # rows 4 to 7
    rig.fail(2, "row 12")
    rig.die(1, row=1)  # rows 0 and 8 are lost
    assert not rig.errors(token)
    assert rig.counters()["unclaimed_rows"] > 0, "rows below 12 may be bad as well"
    while rig.claims(2):
        claim = rig.claims(2)[0]
        if claim.row_lo > 12:
            rig.finish(2)  # it was claimed before
        else:
            assert claim.row_hi <= 12
            rig.fail(2, f"row {claim.row_lo}")
    (error,) = rig.errors(token)
    assert error.message == "row 0"


def test_a_worker_that_cannot_open_a_stream_ends_the_run_and_the_kept_build(lone):
    token = lone.open()
    lone.run(token, granted=1)
    (claim,) = lone.claims(1)
    lone.do(ev.ChunkFailed, 1, 0, claim.stream, "dataset", "it changed", {"dataset": "photos"})
    lone.do(ev.ChunkFailed, 1, claim.claim, claim.stream, "dataset", "it changed", {})
    (error,) = lone.errors(token)
    assert (error.code, error.message, error.run) == ("dataset", "it changed", 1)
    assert lone.counters()["cancelled_slots"] == lone.counters()["claims"] == 0
    lone.run(token, run=2, granted=1)
    assert len(of(lone.said, ins.TellStream)) == 2, "it is sent again"
    lone.open()
    assert lone.counters()["builds_total"] == 2
    assert lone.do(ev.ChunkFailed, 1, 0, 99, "dataset", "?", {}) == []


def test_details_of_a_failure_may_have_any_name(lone):
    token = lone.open()
    lone.run(token, granted=1)
    claim = lone.claims(1).pop()
    lone.do(
        ev.ChunkFailed, 1, claim.claim, claim.stream, "sample", "bad", {"message": 1, "self": 2}
    )
    assert lone.errors(token)[0].details == {"message": 1, "self": 2}


def test_workers_that_die_before_any_row_stop_the_stream(lone):
    token = lone.open()
    lone.run(token, granted=1)
    for number in range(1, 6):
        assert not lone.errors(token)
        lone.die(number, blame=True, begun=False)
        if number < 5:
            replace(lone, number + 1)
    (error,) = lone.errors(token)
    assert error.code == "stream_stopped"
    assert "5 workers in a row died before they started any row of the stream" in error.message
    assert "the last: signal 11" in error.message


def test_a_stream_that_hangs_workers_as_they_open_it_stops(lone):
    token = lone.open()
    lone.run(token, granted=1)
    lone.tick(61)
    lone.die(1, begun=False)
    replace(lone, 2)
    assert not lone.errors(token)
    lone.tick(61)
    lone.die(2, begun=False)
    assert "2 workers in a row died before they started any row" in lone.errors(token)[0].message


def test_a_stream_that_kills_busy_workers_as_they_open_it_stops(lone):
    good, bad = lone.open(batch_size=1, prefetch=90), lone.open(seed=9)
    lone.run(good, granted=90)
    lone.run(bad, granted=1)
    for number in range(1, 20):
        while lone.claims(number)[0].stream == 1:
            lone.finish(number)
        lone.die(number, blame=True, begun=False)
        if lone.errors(bad):
            break
        replace(lone, number + 1)
    assert number == 5
    assert not lone.errors(good)


def test_workers_that_are_killed_as_they_open_a_stream_are_replaced_until_a_deadline(make_rig):
    rig = make_rig(workers=1, outstanding=1, start_deadline_s=100.0)
    rig.up(1)
    token = rig.open()
    rig.run(token, granted=1)
    for number in range(1, 7):
        rig.die(number, begun=False)
        assert not rig.errors(token)
        rig.tick(10)
        replace(rig, number + 1)
    rig.tick(50)
    rig.die(7, begun=False)
    assert "7 workers in a row died before they started any row" in rig.errors(token)[0].message


def test_workers_that_are_killed_at_their_start_are_replaced_until_a_deadline(make_rig):
    rig = make_rig(workers=1, start_deadline_s=100.0)
    token = rig.open()
    rig.run(token, granted=1)
    for number in range(1, 7):
        rig.do(ev.WorkerDown, number, "killed by SIGKILL", False)
        rig.tick(10)
        assert ins.StartWorker(number + 1) in rig.said
    assert not rig.errors(token)
    rig.tick(50)
    (error,) = rig.errors(token)
    assert error.code == "resource"
    assert "no worker survives its start: 6 in a row died, the last: killed by SIG" in error.message
    rig.tick(50)
    assert len(rig.errors(token)) == 1


def test_workers_that_fail_at_their_start_are_told_at_once(make_rig):
    rig = make_rig(workers=1)
    token = rig.open()
    rig.run(token, granted=1)
    for number in range(1, 6):
        rig.do(ev.WorkerDown, number, "exit code 1", True)
        rig.tick(0.25 * 2 ** (number - 1))
    assert "5 in a row died, the last: exit code 1" in rig.errors(token)[0].message


@pytest.mark.parametrize(("state", "freezes"), [("T", 20), ("D", 7), ("S", 7)])
def test_a_pool_that_freezes_costs_time_and_no_stream(make_rig, state, freezes):
    rig = make_rig(workers=2, outstanding=1)
    rig.up(1, 2)
    token = rig.open(batch_size=8)
    rig.run(token, granted=1)
    numbers = (1, 2)
    for _ in range(freezes):
        killed = [kill.worker for kill in of(rig.tick(61), ins.KillWorker)]
        assert killed == list(numbers)
        for number in numbers:
            claim = rig.claims(number)[0]
            rig.claims(number).clear()
            rig.do(ev.WorkerDown, number, "hung", False, claim.claim, claim.row_lo, None, state)
        rig.tick(40)
        numbers = tuple(start.worker for start in of(rig.said, ins.StartWorker)[-2:])
        rig.up(*numbers)
        assert not rig.errors(token)
    rig.work(numbers)
    assert places(rig, token) == [(0, 0)]


@pytest.mark.parametrize("state", ["R", "S"])
def test_a_row_that_hangs_while_others_work_is_blamed(make_rig, state):
    rig = make_rig(workers=2, outstanding=1)
    rig.up(1, 2)
    token = rig.open(batch_size=8)
    rig.run(token, granted=1)
    for hanging, other in ((1, 2), (2, 3)):
        rig.tick(40)
        rig.work((other,))
        assert ins.KillWorker(hanging, rig.tick(21)[0].reason) in rig.said
        claim = rig.claims(hanging)[0]
        rig.claims(hanging).clear()
        rig.do(ev.WorkerDown, hanging, "hung", False, claim.claim, 0, None, state)
        if hanging == 1:
            rig.up(3)
    assert "killed or hung a worker 2 times" in rig.errors(token)[0].message


def hang_all(rig, samples, numbers, state="S"):
    """All workers hang at their head's first row, at these samples by step; others come up."""
    killed = [kill.worker for kill in of(rig.tick(61), ins.KillWorker)]
    assert killed == list(numbers)
    for number in numbers:
        claim = rig.claims(number)[0]
        rig.claims(number).clear()
        at = claim.claim, claim.row_lo, samples[claim.step]
        rig.do(ev.WorkerDown, number, "hung", False, *at, state)
    rig.tick(40)
    numbers = tuple(start.worker for start in of(rig.said, ins.StartWorker)[-len(numbers) :])
    rig.up(*numbers)
    return numbers


@pytest.mark.parametrize("policy", ["raise", "replace"])
def test_workers_that_hang_at_one_sample_in_two_batches_are_no_freeze(make_rig, policy):
    """Twice is enough, as with one worker: the first pair of hangs points to the sample."""
    rig = make_rig(workers=2, outstanding=1, crash_policy=policy)
    rig.up(1, 2)
    token = rig.open(batch_size=1)
    rig.run(token, granted=2)
    numbers = hang_all(rig, {0: 33, 1: 33}, (1, 2))
    assert not rig.errors(token), "it may be a freeze: only the second one counts"
    numbers = hang_all(rig, {0: 33, 1: 33}, numbers)
    if policy == "raise":
        (error,) = rig.errors(token)
        assert "(sample 33 of dataset" in error.message
        assert "killed or hung a worker 3 times, the last: hung" in error.message
    else:
        rig.work(numbers)
        assert [ready.crashed for ready in rig.ready(token)] == [[33], [33]]
        assert not rig.errors(token)
    assert rig.counters()["worker_hangs_total"] == 4


@pytest.mark.parametrize(("samples", "state"), [((33, 34), "S"), ((33, 33), "D")])
def test_hangs_at_samples_of_their_own_or_in_storage_point_to_none(make_rig, samples, state):
    rig = make_rig(workers=2, outstanding=1)
    rig.up(1, 2)
    token = rig.open(batch_size=1)
    rig.run(token, granted=2)
    numbers = (1, 2)
    for _ in range(3):
        numbers = hang_all(rig, dict(enumerate(samples)), numbers, state)
    assert not rig.errors(token)
    rig.work(numbers)
    assert places(rig, token) == [(0, 0), (0, 1)]


def test_a_sample_that_kills_at_two_rows_is_blamed_for_both(make_rig):
    rig = make_rig(workers=2, outstanding=1)
    rig.up(1, 2)
    token = rig.open(batch_size=1)
    rig.run(token, granted=2)
    for number in (1, 2):
        assert not rig.errors(token)
        rig.die(number, blame=True, row=0, sample=33)
    assert "(sample 33 of dataset" in rig.errors(token)[0].message


def test_a_worker_that_compiles_is_not_late(make_rig):
    rig = make_rig(workers=1, outstanding=1, build_deadline_s=100.0)
    rig.up(1)
    token = rig.open()
    rig.run(token, granted=1)
    for _ in range(10):
        assert not of(rig.tick(50), ins.KillWorker)
        rig.do(ev.WorkerBusy, 1, True)
    assert not of(rig.tick(50), ins.KillWorker)
    rig.do(ev.WorkerBusy, 1, False)
    assert not of(rig.tick(60), ins.KillWorker)
    assert of(rig.tick(1), ins.KillWorker)
    assert not rig.do(ev.WorkerBusy, 9, True)


def test_a_worker_that_stops_while_it_compiles_is_killed(make_rig):
    rig = make_rig(workers=1, outstanding=1, build_deadline_s=100.0)
    rig.up(1)
    token = rig.open()
    rig.run(token, granted=1)
    rig.do(ev.WorkerBusy, 1, True)
    assert not of(rig.tick(100), ins.KillWorker)
    assert of(rig.tick(1), ins.KillWorker)


@pytest.mark.parametrize("earlier", [False, True])
def test_a_failed_batch_with_an_undead_writer_ends_with_its_first_bad_row(make_rig, earlier):
    rig = make_rig(workers=2, outstanding=2)
    rig.up(1, 2)
    token = rig.open(batch_size=8)
    rig.run(token, granted=2)
    while rig.claims(2)[0].step == 0:
        rig.finish(2)
    while rig.claims(1)[0].step == 0:
        rig.finish(1)
    assert [rig.claims(n)[0].step for n in (1, 2)] == [1, 1]
    lost, failed = rig.claims(1)[0], rig.claims(2)[0]
    assert (lost.row_lo, failed.row_lo) == (0, lost.row_hi)
    rig.fail(2, "a later row")
    rig.work((2,))
    rig.tick(61)
    before = rig.counters()["recomputed_rows_total"]
    rig.tick(6)
    assert rig.counters()["retired_slots"] == 1
    assert not rig.errors(token), "rows below it may be bad as well"
    assert rig.counters()["unclaimed_rows"] == 0
    (again,) = rig.claims(2)
    assert (again.row_lo, again.row_hi) == (0, lost.row_hi), "others are not done again"
    assert rig.counters()["recomputed_rows_total"] - before == lost.row_hi
    if earlier:
        rig.fail(2, "row 0")
    rig.work((2,))
    (error,) = rig.errors(token)
    assert error.message == ("row 0" if earlier else "a later row")
    rig.run(token, run=2, granted=1)
    rig.work((2,))
    assert places(rig, token) == [(0, 0), (0, 0)]


def test_an_undead_writer_above_a_failed_claim_changes_nothing(make_rig):
    rig = make_rig(workers=2, outstanding=1)
    rig.up(1, 2)
    token = rig.open(batch_size=8)
    rig.run(token, granted=1)
    assert [rig.claims(n)[0].row_lo for n in (1, 2)] == [0, 4]
    rig.now += 40
    rig.fail(1, "row 0")
    assert not rig.errors(token), "worker 2 still writes"
    rig.tick(21)
    rig.tick(6)
    assert rig.counters()["retired_slots"] == 1
    assert rig.errors(token)[0].message == "row 0"
    assert rig.counters()["unclaimed_rows"] == 0


def test_a_done_chunk_makes_bare_deaths_forgotten(lone):
    token = lone.open()
    lone.run(token, granted=1)
    for number in range(1, 12):
        lone.die(number, begun=False)
        replace(lone, number + 1)
        if number % 4 == 0:
            lone.finish(number + 1)
    assert not lone.errors(token)


def test_restarts_wait_longer_and_longer(make_rig):
    rig = make_rig(workers=1)
    pauses, died_at = [], rig.now
    for number in range(1, 12):
        rig.do(ev.WorkerDown, number, "exit code 1", False)
        died_at = rig.now
        while ins.StartWorker(number + 1) not in rig.said:
            rig.tick(0.25)
        pauses.append(rig.now - died_at)
    assert pauses == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]


@pytest.mark.parametrize("worked", [True, False])
def test_a_worker_that_was_of_use_or_lived_long_is_replaced_at_once(lone, worked):
    token = lone.open()
    if worked:
        lone.run(token, granted=1)
        lone.finish(1)
    else:
        lone.now += 11
    assert ins.StartWorker(2) in lone.do(ev.WorkerDown, 1, "signal 15", False)


def test_workers_that_do_not_start_are_told_instead_of_waiting(make_rig):
    rig = make_rig(workers=1)
    token = rig.open()
    rig.run(token, granted=1)
    for number in range(1, 6):
        assert not rig.errors(token)
        rig.do(ev.WorkerDown, number, "exit code 1", False)
        rig.tick(40)
    (error,) = rig.errors(token)
    assert (error.code, error.run) == ("resource", 1)
    assert "no worker survives its start: 5 in a row died, the last: exit code 1" in error.message
    rig.run(token, run=2)
    assert rig.errors(token)[-1].run == 2
    rig.up(6)
    rig.run(token, run=3, granted=1)
    rig.work((6,))
    assert len(rig.errors(token)) == 2
    assert places(rig, token) == [(0, 0)]


def test_a_worker_that_does_not_come_up_is_killed(make_rig):
    rig = make_rig(workers=1, worker_start_s=20)
    rig.tick(0)
    assert not of(rig.tick(20), ins.KillWorker)
    rig = make_rig(workers=1, worker_start_s=20)
    rig.tick(0)
    (kill,) = of(rig.tick(20.5), ins.KillWorker)
    assert kill == ins.KillWorker(1, "not ready after 20 s")
    rig.up(1)
    assert rig.counters()["workers_up"] == 0
    rig.do(ev.WorkerDown, 1, "signal 9", False)
    assert not of(rig.said, ins.StartWorker)[1:], "it pauses"
    rig.tick(1)
    assert of(rig.said, ins.StartWorker)[1:] == [ins.StartWorker(2)]


def test_rows_above_a_failed_claim_are_not_done_again(make_rig):
    rig = make_rig(workers=2, outstanding=2)
    rig.up(1, 2)
    token = rig.open(batch_size=16)
    rig.run(token, granted=1)
    assert [w.row_lo for w in rig.claims(1)] == [0, 8]
    assert [w.row_lo for w in rig.claims(2)] == [4, 12]
    rig.finish(1)
    rig.fail(2, "row 4")
    rig.finish(1)
    assert rig.counters()["unclaimed_rows"] == 0
    rig.die(2, row=12)
    rig.work((1,))
    assert rig.errors(token)[0].message == "row 4"
    assert rig.counters()["recomputed_rows_total"] == 0


def test_lost_rows_below_a_failed_claim_are_still_done(make_rig):
    rig = make_rig(workers=2, outstanding=2)
    rig.up(1, 2)
    token = rig.open(batch_size=16)
    rig.run(token, granted=1)
    rig.die(1)
    rig.fail(2, "row 4")
    assert [w.row_lo for w in rig.claims(2)] == [12, 0], "rows 0 to 4 had come back"
    rig.finish(2)
    rig.fail(2, "row 0")
    rig.work((2,))
    assert rig.errors(token)[0].message == "row 0"


def test_a_range_under_suspicion_is_claimed_as_it_is(make_rig):
    rig = make_rig(workers=4, outstanding=1)
    rig.up(1)
    token = rig.open(batch_size=8)
    rig.run(token, granted=1)
    claim = rig.claims(1).pop()
    assert (claim.row_lo, claim.row_hi) == (0, 4)
    rig.up(2, 3, 4)
    rig.do(ev.WorkerDown, 1, "signal 11", True, claim.claim, None)
    rig.finish(2)
    rig.finish(3)
    got = [(w.row_lo, w.row_hi) for n in (2, 3) for w in rig.claims(n)]
    assert got == [(0, 2), (2, 4)]


def test_the_clock_of_a_claim_begins_when_an_idle_worker_gets_it(lone):
    token = lone.open()
    lone.tick(1000)
    lone.run(token, granted=1)
    assert not of(lone.tick(59), ins.KillWorker)


def test_a_done_chunk_ends_the_pauses(make_rig):
    rig = make_rig(workers=1)
    token = rig.open()
    rig.run(token, granted=1)
    for number in range(1, 5):
        rig.do(ev.WorkerDown, number, "exit code 1", False)
        rig.tick(40)
    rig.up(5)
    rig.finish(5)
    rig.die(5, begun=False)
    rig.do(ev.WorkerDown, 6, "exit code 1", False)
    assert ins.StartWorker(7) in rig.tick(0.25)


def test_an_undead_worker_is_blamed_once(lone):
    token = lone.open(batch_size=1)
    lone.run(token, granted=1)
    (head,) = lone.claims(1)
    lone.tick(61)
    lone.tick(6)
    assert lone.counters()["retired_slots"] == 1
    lone.do(ev.WorkerDown, 1, "signal 9", False, head.claim, 0)
    assert not lone.errors(token)
    replace(lone, 2)
    lone.finish(2)
    assert places(lone, token) == [(0, 0)]


def test_what_an_undead_worker_never_began_goes_to_others_at_once(make_rig):
    rig = make_rig(workers=2, outstanding=2)
    rig.up(1, 2)
    token = rig.open(batch_size=1)
    rig.run(token, granted=3)
    assert [w.step for w in rig.claims(1)] == [0, 2]
    rig.now += 40
    rig.finish(2)
    rig.tick(21)
    rig.tick(6)
    assert rig.counters()["retired_slots"] == 1
    rig.work((2,))
    assert places(rig, token) == [(0, 0), (0, 1), (0, 2)]


def test_a_stream_whose_workers_die_has_one_worker_alone(make_rig):
    """So that one whose rows need too much memory does not end the workers of all others."""
    rig = make_rig(workers=2)
    rig.up(1, 2)
    greedy, honest = rig.open(batch_size=40), rig.open(batch_size=20)
    rig.run(greedy)
    rig.run(honest)
    (of_greedy,) = {work.stream for work in rig.claims(1)[:1]}
    for number in (1, 2):
        rig.die(number, row=rig.claims(number)[0].row_lo)
    rig.tick(40)
    rig.up(3, 4)
    alive, started = [3, 4], 4
    while started < 8:
        apart = [w for w in alive if any(work.stream == of_greedy for work in rig.claims(w))]
        if not apart:
            rig.finish(next(worker for worker in alive if rig.claims(worker)))
            continue
        (number,) = apart
        assert {work.stream for work in rig.claims(number)} == {of_greedy}
        rig.die(number, begun=False)
        started += 1
        rig.tick(40)
        rig.up(started)
        alive[alive.index(number)] = started
    assert rig.ready(honest)
    assert not rig.errors(honest)


def test_with_one_worker_a_stream_that_kills_it_is_stopped_and_the_other_goes_on(make_rig):
    """There is no worker to set apart, so the other stream waits, and loses nothing."""
    rig = make_rig(workers=1)
    rig.up(1)
    greedy, honest = rig.open(batch_size=40), rig.open(batch_size=20)
    rig.run(greedy)
    (of_greedy,) = {work.stream for work in rig.claims(1)[:1]}
    rig.run(honest)
    number = 1
    while not rig.errors(greedy):
        assert number < 20, "it should have been stopped"
        head = rig.claims(number)[0]
        if head.stream == of_greedy:
            rig.die(number, row=head.row_lo)
            rig.tick(40)
            number += 1
            rig.up(number)
        else:
            rig.finish(number)
    rig.work((number,))
    assert rig.ready(honest)
    assert not rig.errors(honest)


def test_the_pause_before_a_restart_doubles_up_to_a_bound():
    settings = Settings(workers=1, memory_limit_bytes=2**20)
    pauses = [backoff_s(settings, deaths) for deaths in (1, 2, 3, 7, 8, 999)]
    assert pauses == [0.25, 0.5, 1.0, 16.0, 30.0, 30.0]
