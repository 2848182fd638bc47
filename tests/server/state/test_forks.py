"""Forks: members have streams of their own, and their rows are claimed together while in step."""

import pytest
from decided import of, places

from stoker.protocol.messages import Credit, Error, Seek
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev

STEPS = 3
"""Steps of an epoch: 50 samples in batches of 16."""
PREFETCH, LEASES = 3, 2
DECODED = {"decoded_bytes": 1000, "usual_bytes": 100, "rows": 50}
WORKERS = 2


def join(rig, built=DECODED, **changes):
    return rig.open(built=built, **{"group": "sweep-7", "mode": "fork", **changes})


def cohorts(rig):
    """What members of one name and rank have in common."""
    groups = rig.core._groups.by_number.values()
    return list({id(group.cohort): group.cohort for group in groups}.values())


def two(rig, **changes):
    """Two members whose seeds differ, in one order."""
    return [join(rig, seed=seed, shuffle_seed=7, **changes) for seed in (7, 8)]


def chunks(rig):
    """The work that was given out: (worker, stream, epoch, step, rows, behind)."""
    return [
        (one.worker, work.stream, work.epoch, work.step, work.row_lo, work.row_hi, work.behind)
        for one in of(rig.said, ins.Assign)
        for work in one.work
    ]


def alone(rig):
    """Rows that were claimed for one member only."""
    found, rest = 0, list(chunks(rig))
    while rest:
        worker, _, *place, behind = rest.pop(0)
        same = rest[:behind]
        del rest[:behind]
        assert [one[0] for one in same] == [worker] * behind, "of one worker, right behind"
        assert [one[2:-1] for one in same] == [tuple(place)] * behind, "the same rows"
        assert [one[-1] for one in same] == list(range(behind))[::-1]
        found += 0 if behind else place[-1] - place[-2]
    return found


def test_members_in_step_have_their_rows_claimed_together(rig):
    members = two(rig, group_size=2)
    for token in members:
        rig.run(token)
    rig.work()
    for _ in range(6):
        for token in members:
            rig.take(token)
        rig.work()
    assert [places(rig, token) for token in members] == [[divmod(n, STEPS) for n in range(9)]] * 2
    assert alone(rig) == 0
    counters = rig.counters()
    assert (counters["groups"], counters["streams"], counters["members"]) == (2, 2, 2)
    assert counters["rows_total"] == 2 * 9 * 16


def test_streams_slabs_and_spec_are_those_of_a_lone_session(rig):
    lone = rig.open(seed=8, shuffle_seed=7)
    member = join(rig, seed=8, shuffle_seed=7)
    first, second = (rig.sent(token)[-1] for token in (lone, member))
    assert (first.spec, first.stream, first.slots) == (second.spec, second.stream, second.slots)
    slabs = of(rig.said, ins.SendSlab)
    assert [one.writable for one in slabs] == [True, True]
    assert slabs[0].slots == slabs[1].slots


def test_a_quick_member_has_its_mate_begin_ahead_of_its_credits(rig):
    quick, slow = two(rig, group_size=2)
    rig.run(quick)
    rig.run(slow, granted=1)
    rig.work()
    assert places(rig, slow) == [(0, 0)], "a batch is announced for a credit"
    rig.take(quick)
    rig.take(quick)
    rig.work()
    assert alone(rig) == 0, "it has slots for five batches"
    rig.take(quick)
    rig.work()
    assert alone(rig) == 16
    rig.send(slow, Credit(1, 4))
    assert places(rig, slow) == [divmod(n, STEPS) for n in range(5)], "at once: they are there"


def test_a_member_that_is_little_behind_catches_up(rig):
    first = join(rig)
    rig.run(first)
    rig.work()
    second = join(rig)
    rig.run(second, granted=1)
    rig.work()
    before = alone(rig)
    assert before == 2 * 3 * 16, "each computed its first batches alone"
    for _ in range(3):
        rig.take(first)
        rig.work()
        rig.take(second)
        rig.work()
    assert alone(rig) == before


def test_a_member_that_stops_or_comes_late_holds_up_nobody(rig):
    quick, slow = two(rig)
    rig.run(quick)
    rig.run(slow, granted=1)
    rig.work()
    for _ in range(20):
        rig.take(quick)
        rig.work()
    late = join(rig, seed=7)
    rig.run(late)
    rig.work()
    for _ in range(20):
        rig.take(quick)
        rig.take(late)
        rig.work()
    assert places(rig, quick) == [divmod(n, STEPS) for n in range(43)]
    assert places(rig, late) == [divmod(n, STEPS) for n in range(23)]
    assert places(rig, slow) == [(0, 0)]
    for _ in range(10):
        rig.take(slow)
        rig.work()
    assert places(rig, slow) == [divmod(n, STEPS) for n in range(11)]


@pytest.mark.parametrize("way", ["close", "die"])
def test_a_member_that_goes_leaves_its_mates_and_gives_its_memory_back(rig, way):
    stays, goes = two(rig)
    cache = 64 * DECODED["usual_bytes"] * WORKERS
    used = rig.counters()["memory_used_bytes"]
    rig.run(stays)
    rig.run(goes)
    rig.end(goes, way)
    rig.work()
    assert places(rig, stays) == [(0, 0), (0, 1), (0, 2)]
    assert rig.counters()["memory_used_bytes"] == cache + (used - cache) // 2
    assert rig.counters()["memory_working_bytes"] == cache
    rig.end(stays)
    counters = rig.counters()
    assert counters["memory_used_bytes"] == counters["memory_working_bytes"] == 0
    assert counters["groups"] == counters["members"] == 0
    assert not cohorts(rig)


def test_rows_of_a_dead_worker_are_claimed_again_for_each_member(rig):
    members = two(rig, group_size=2)
    for token in members:
        rig.run(token)
    rig.die(1)
    rig.do(ev.Tick)
    rig.work((2,))
    assert [places(rig, token) for token in members] == [[(0, 0), (0, 1), (0, 2)]] * 2


def test_a_row_that_kills_workers_stops_only_its_own_stream(rig):
    members = two(rig, group_size=2)
    for token in members:
        rig.run(token)
    workers, deaths = [1, 2], 0
    for _ in range(100):
        for worker in workers:
            head = (*rig.claims(worker), None)[0]
            if head is None:
                continue
            if (head.stream, head.step) == (1, 0) and head.row_lo <= 3 < head.row_hi:
                deaths += 1
                rig.die(worker, blame=True, row=3)
                rig.tick()
                workers[workers.index(worker)] = new = max(rig.core._pool.workers)
                rig.up(new)
            else:
                rig.finish(worker)
    assert deaths == 2
    assert [error.code for error in rig.errors(members[0])] == ["stream_stopped"]
    assert not rig.errors(members[1])
    assert places(rig, members[1]) == [(0, 0), (0, 1), (0, 2)]


def test_a_chunk_has_the_samples_for_which_a_worker_has_room(rig):
    """64 rows of usual size fit; a quarter is left for larger ones."""
    changes = {"batch_size": 400, "built": {**DECODED, "rows": 4000}}
    members = two(rig, **changes, group_size=2)
    rig.core._groups.by_number[1].stream.most_rows = 10**6
    rig.core._groups.by_number[2].stream.most_rows = 10**6
    for token in members:
        rig.run(token, granted=1)
    assert max(hi - lo for _, _, _, _, lo, hi, _ in chunks(rig)) == 48


def test_chunks_whose_samples_were_decoded_say_nothing_about_the_cost_of_others(rig):
    """They cost less; if they counted, rows would seem to differ much in cost."""
    members = two(rig, built={**DECODED, "rows": 4000}, batch_size=400, group_size=2)
    for token in members:
        rig.run(token, granted=6)
    for _ in range(60):
        for worker in (1, 2):
            if rig.claims(worker):
                head = rig.claims(worker)[0]
                row_s = 0.01 if head.behind else 0.002
                rig.finish(worker, seconds=row_s * (head.row_hi - head.row_lo))
    streams = [group.stream for group in rig.core._groups.by_number.values()]
    assert [stream.cuts for stream in streams] == [1, 1]
    assert [round(stream.row_s, 9) for stream in streams] == [0.01, 0.01]


def test_rows_without_anything_to_decode_are_claimed_apart(rig):
    members = two(rig, built={"rows": 50}, group_size=2)
    for token in members:
        rig.run(token)
    rig.work()
    assert rig.counters()["memory_working_bytes"] == 0
    assert alone(rig) == 2 * 3 * 16


def test_a_fork_whose_memory_is_not_there_is_refused_with_the_numbers(rig):
    token = rig.hello()
    with pytest.raises(AssertionError):
        join(rig, token=token, built={"decoded_bytes": 2**20, "usual_bytes": 2**20})
    (error,) = rig.errors(token)
    assert error.code == "resource"
    assert error.details["needed_bytes"] == 2**26
    assert "mode='fork' needs 33554432 more bytes in each worker" in error.message
    counters = rig.counters()
    assert counters["memory_used_bytes"] == counters["memory_working_bytes"] == 0
    assert not cohorts(rig)


def test_a_fork_has_at_most_64_members(make_rig):
    rig = make_rig(memory_limit_bytes=2**24)
    for seed in range(64):
        join(rig, seed=seed, shuffle_seed=7)
    token = rig.hello()
    with pytest.raises(AssertionError):
        join(rig, token=token)
    (error,) = rig.errors(token)
    assert (error.code, error.details) == ("resource", {"members": 64})
    assert rig.counters()["groups"] == 64


def test_an_edited_file_is_named(rig):
    join(rig, built={**DECODED, "code": (("/jobs.py", "old"),)})
    changed = {**DECODED, "code": (("/jobs.py", "new"),), "pipeline_id": "ef" * 16}
    assert "/jobs.py was edited after" in refusal(rig, pipeline="plain", built=changed)


def refusal(rig, **changes) -> str:
    token = rig.hello()
    with pytest.raises(AssertionError):
        join(rig, token=token, **changes)
    (error,) = rig.errors(token)
    assert isinstance(error, Error)
    assert error.code == "usage"
    return error.message


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 8}, "shuffle_seed: was 7, is 8"),
        ({"batch_size": 8}, "batch_size: was 16, is 8"),
        ({"shuffle": False}, "order: was"),
        ({"tail": "pad"}, "tail: was 'drop', is 'pad'"),
        ({"views": 2}, "views: was 1, is 2"),
        ({"shuffle_block": 4}, "order: was"),
        ({"world_size": 2}, "world_size: was 1, is 2"),
        ({"group_size": 3}, "group_size: was 0, is 3"),
        ({"mode": "mirror"}, "its members have mode='fork', but this one asks for mode='mirror'"),
    ],
)
def test_a_member_of_another_order_is_refused(rig, changes, named):
    join(rig)
    message = refusal(rig, **changes)
    assert named in message
    assert ("shuffle=Shuffle(seed=...) with one seed" in message) == ("shuffle_seed" in named)


def test_a_mirror_is_no_fork(rig):
    rig.open(group="sweep-7")
    assert "its members have mode='mirror'" in refusal(rig)


@pytest.mark.parametrize(
    "changes",
    [
        {"pipeline": "plain", "built": {**DECODED, "pipeline_id": "ef" * 16}},
        {"seed": 9, "shuffle_seed": 7},
        {"on_error": "mask", "verify": True},
        {"prefetch": 1, "leases": 9},
    ],
)
def test_what_may_differ(rig, changes):
    first = join(rig)
    second = join(rig, **changes)
    rig.run(first)
    rig.run(second, granted=1)
    assert len(cohorts(rig)) == 1


def test_the_seed_counts_for_nothing_without_a_shuffle(rig):
    join(rig, shuffle=False)
    join(rig, shuffle=False, seed=8)
    assert len(cohorts(rig)) == 1


def test_each_rank_has_a_fork_of_its_own(rig):
    for rank in (0, 1, 0):
        join(rig, rank=rank, world_size=2)
    ranks = [[group.record.rank for group in cohort.groups] for cohort in cohorts(rig)]
    assert sorted(ranks) == [[0, 0], [1]]


def test_the_first_batch_waits_for_all_members(rig):
    first, second = two(rig, group_size=2)
    rig.run(first)
    assert not chunks(rig)
    rig.run(second)
    rig.work()
    assert alone(rig) == 0
    assert [len(rig.ready(token)) for token in (first, second)] == [3, 3]


def test_a_fork_begins_without_a_member_that_does_not_come(rig):
    first, _ = two(rig, group_size=2)
    rig.run(first)
    rig.tick(61)
    rig.tick()
    rig.work()
    assert len(rig.ready(first)) == 3
    (log,) = [one for one in of(rig.said, ins.Log) if one.event == "group_begins_without_all"]
    assert (log.facts["group"], log.facts["members"]) == ("sweep-7", 1)


def test_a_seek_back_computes_alone_and_goes_on(rig):
    members = two(rig, group_size=2)
    for token in members:
        rig.run(token)
    rig.work()
    rig.send(members[0], Seek(2, 0, 0), Credit(2, 2))
    rig.work()
    assert places(rig, members[0]) == [(0, 0), (0, 1), (0, 2), (0, 0), (0, 1)]
