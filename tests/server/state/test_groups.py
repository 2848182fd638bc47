"""Groups: members of one name share batches and slots; no member waits for another."""

import pytest
from decided import of, places

from stoker.protocol.messages import Credit, Error, Opened, Ready, Seek
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev

GROUP = "sweep-7"
STEPS = 3
"""Steps of an epoch: 50 samples in batches of 16."""
PREFETCH, LEASES = 3, 2


def join(rig, group=GROUP, **changes):
    return rig.open(group=group, **changes)


def slots_of(rig, token):
    return [(ready.slot, ready.generation) for ready in rig.ready(token)]


def test_members_get_the_same_slots_and_each_row_is_computed_once(rig):
    members = [join(rig) for _ in range(3)]
    for token in members:
        rig.run(token)
    rig.work()
    assert [places(rig, token) for token in members] == [[(0, 0), (0, 1), (0, 2)]] * 3
    assert len({tuple(slots_of(rig, token)) for token in members}) == 1
    counters = rig.counters()
    assert counters["rows_total"] == 3 * 16
    assert counters["batches_total"] == 9
    assert counters["shared_batches_total"] == 6
    assert (counters["members"], counters["groups"], counters["streams"]) == (3, 1, 1)


def test_a_slot_is_free_when_the_last_member_released_it(rig):
    first, second = join(rig), join(rig)
    rig.run(first, granted=1)
    rig.run(second, granted=1)
    rig.work()
    rig.release(first, *rig.ready(first))
    assert rig.counters()["leased_slots"] == 1
    rig.release(second, *rig.ready(second))
    assert rig.counters()["leased_slots"] == rig.counters()["kept_slots"] == 0


def test_a_batch_is_kept_for_a_member_on_its_way(rig):
    first, second = join(rig), join(rig)
    rig.run(first)
    rig.work()
    rig.release(first, *rig.ready(first))
    assert rig.counters()["kept_slots"] == 3
    computed = rig.counters()["rows_total"]
    rig.run(second)
    assert places(rig, second) == [(0, 0), (0, 1), (0, 2)], "at once: they are there"
    assert rig.counters()["rows_total"] == computed
    rig.release(second, *rig.ready(second))
    assert rig.counters()["kept_slots"] == 0


def test_a_member_that_stops_holds_up_nobody_and_gets_its_batches_later(rig):
    quick, slow = join(rig), join(rig)
    rig.run(quick)
    rig.run(slow, granted=1)
    rig.work()
    for _ in range(40):
        rig.take(quick)
        rig.work()
    assert places(rig, quick) == [(n // STEPS, n % STEPS) for n in range(43)]
    assert places(rig, slow) == [(0, 0)]
    assert rig.counters()["dropped_batches_total"] > 0
    for _ in range(30):
        rig.take(slow)
        rig.work()
    assert places(rig, slow) == [(n // STEPS, n % STEPS) for n in range(31)]


def test_a_member_that_keeps_all_its_slots_costs_the_others_nothing(rig):
    hoarder, other = join(rig), join(rig)
    rig.send(hoarder, Seek(1, 0, 0), Credit(1, 100))
    rig.work()
    assert len(rig.ready(hoarder)) == PREFETCH + LEASES, "as many as it brought"
    rig.run(other)
    rig.work()
    for _ in range(20):
        rig.take(other)
        rig.work()
    assert places(rig, other) == [(n // STEPS, n % STEPS) for n in range(23)]
    assert len(rig.ready(hoarder)) == PREFETCH + LEASES


@pytest.mark.parametrize("way", ["close", "die"])
def test_a_member_that_goes_frees_its_slots_and_those_that_it_brought(rig, way):
    stays, goes = join(rig), join(rig)
    used = rig.counters()["memory_used_bytes"]
    rig.run(stays)
    rig.run(goes)
    rig.work()
    rig.release(stays, *rig.ready(stays))
    said = rig.end(goes, way)
    shrunk = of(said, ins.ShrinkSlab)
    assert sum(len(one.slots) for one in shrunk) == PREFETCH + LEASES
    counters = rig.counters()
    assert counters["leased_slots"] == 0
    assert counters["memory_used_bytes"] == used * 6 // 11
    rig.send(stays, Credit(1, 3))
    rig.work()
    assert len(rig.ready(stays)) == 6
    rig.end(stays)
    assert rig.counters()["memory_used_bytes"] == rig.counters()["groups"] == 0


def test_a_kept_slot_that_is_owed_is_not_the_last_one_that_is_taken(rig):
    """A member left while workers wrote two slots: the next two without a lease are removed."""
    late, reads, goes = join(rig), join(rig), join(rig)
    for epoch, token in enumerate((late, reads)):
        rig.send(token, Seek(1, 5 * epoch, 0), Credit(1, 100))
        rig.work()
        assert len(rig.ready(token)) == PREFETCH + LEASES
    rig.send(goes, Seek(1, 9, 0), Credit(1, 100))
    rig.end(goes)
    counters = rig.counters()
    assert (counters["cancelled_slots"], counters["leased_slots"]) == (2, 10)
    rig.release(reads, *rig.ready(reads)[:3])
    counters = rig.counters()
    assert counters["dropped_batches_total"] == 3, "two are gone, the third one is used"
    assert (counters["kept_slots"], counters["batches_under_way"]) == (0, 1)


def test_the_first_member_may_go(rig):
    first, second = join(rig), join(rig)
    rig.run(first)
    rig.run(second)
    rig.end(first)
    rig.work()
    assert places(rig, second) == [(0, 0), (0, 1), (0, 2)]
    third = join(rig)
    rig.run(third)
    assert slots_of(rig, third) == slots_of(rig, second)


def test_slots_that_went_come_back_with_the_next_member(rig):
    stays, goes = join(rig), join(rig)
    said = rig.end(goes)
    gone = sorted(slot for one in of(said, ins.ShrinkSlab) for slot in one.slots)
    rig.said.clear()
    join(rig)
    (grown,) = of(rig.said, ins.GrowSlab)
    assert sorted(grown.slots) == gone
    assert rig.counters()["members"] == 2
    assert stays in rig.core._groups.by_number[1].members


def test_a_member_that_the_daemon_ends_may_still_read_its_slots(rig):
    """Its client is alive, and its arrays are in the slots: they are not written again."""
    stays, ended = join(rig), join(rig)
    rig.run(ended)
    rig.work()
    held = {ready.slot for ready in rig.ready(ended)}
    rig.do(ev.LifelineDown, ended, by_daemon=True)
    rig.run(stays, granted=1)
    for _ in range(20):
        rig.work()
        rig.take(stays)
    rig.work()
    assert not held & {ready.slot for ready in rig.ready(stays)[3:]}
    assert rig.counters()["leased_slots"] >= len(held)
    used = rig.counters()["memory_used_bytes"]
    rig.do(ev.LifelineDown, ended)
    assert used - rig.counters()["memory_used_bytes"] == len(held) * 4096
    (group,) = rig.core._groups.by_number.values()
    assert not any(ended in slot.holders for slot in group.slots.slots)
    assert not rig.do(ev.LifelineDown, ended)


def test_a_batch_is_not_announced_twice_to_a_member(rig):
    """A member that seeks back gets another slot, or a later generation."""
    first, second = join(rig), join(rig)
    for token in (first, second):
        rig.run(token)
    rig.work()
    rig.run(first, run=2)
    rig.work()
    assert places(rig, first) == [(0, 0), (0, 1), (0, 2), (0, 0), (0, 1)], "it holds three of five"
    assert len(set(slots_of(rig, first))) == 5


def test_members_at_other_places_of_an_epoch(rig):
    first, second = join(rig), join(rig)
    rig.run(first, epoch=2, step=1)
    rig.run(second, epoch=0, step=0)
    rig.work()
    assert places(rig, first) == [(2, 1), (2, 2), (3, 0)]
    assert places(rig, second) == [(0, 0), (0, 1), (0, 2)]
    assert rig.counters()["shared_batches_total"] == 0


def test_a_seek_of_one_member_takes_no_batch_from_another(rig):
    first, second = join(rig), join(rig)
    rig.run(first)
    rig.run(second)
    rig.send(first, Seek(2, 5, 0))
    rig.work()
    assert places(rig, second) == [(0, 0), (0, 1), (0, 2)]
    assert places(rig, first) == []


def test_a_bad_sample_ends_the_run_of_each_member_in_its_turn(rig):
    first, second = join(rig), join(rig)
    rig.run(first, granted=1)
    rig.run(second, granted=1)
    rig.fail(1)
    rig.work()
    for token, run in ((first, 1), (second, 1)):
        (error,) = rig.errors(token)
        assert (error.code, error.run) == ("sample", run)
    rig.run(second, run=2, step=1)
    rig.work()
    assert places(rig, second)[0] == (0, 1)


def test_a_worker_dies_and_no_member_notices(rig):
    first, second = join(rig), join(rig)
    rig.run(first)
    rig.run(second)
    rig.die(1)
    rig.work((2,))
    assert places(rig, first) == places(rig, second) == [(0, 0), (0, 1), (0, 2)]
    assert rig.counters()["recomputed_rows_total"] > 0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 8}, "seed: was 7, is 8"),
        ({"batch_size": 32}, "batch_size: was 16, is 32"),
        ({"shuffle": False}, "order: was "),
        ({"world_size": 2}, "world_size: was 1, is 2"),
        ({"views": 2}, "views: was 1, is 2"),
        ({"tail": "pad"}, "tail: was 'drop', is 'pad'"),
        ({"verify": True}, "verify: was False, is True"),
        ({"group_size": 2}, "group_size: was 0, is 2"),
        ({"hosts": ("ipc:///a",)}, "daemons: was this one alone, is ipc:///a"),
        ({"hosts": None}, "daemons: was this one alone, is those of a directory"),
    ],
)
def test_a_member_that_differs_is_refused_with_the_difference(rig, make_open, changes, named):
    join(rig)
    token = rig.hello()
    rig.send(token, make_open(group=GROUP, **changes))
    (error,) = rig.errors(token)
    assert error.code == "usage"
    assert f"group '{GROUP}': all its members read the same batches" in error.message
    assert named in error.message
    assert "give all members the same arguments, or give this one another group" in error.message
    assert rig.counters()["members"] == 1


def test_another_pipeline_and_other_draw_records_are_refused(rig, make_open, make_result):
    join(rig)
    for changes, named in (({"pipeline": "plain"}, "pipeline: was"), ({"params": True}, "params")):
        token = rig.hello()
        said = rig.send(token, make_open(group=GROUP, **changes))
        for build in of(said, ins.StartBuild):
            rig.do(ev.Built, make_result(build.request.build, pipeline_id="ef" * 16))
        errors = rig.errors(token)
        if named == "params":  # a pipeline that draws nothing has no records
            assert not errors
        else:
            assert named in errors[0].message


def test_ranks_of_a_name_have_groups_of_their_own_and_one_stream(rig, make_open):
    first = join(rig, rank=0, world_size=2)
    other = join(rig, rank=1, world_size=2)
    again = join(rig, rank=1, world_size=2)
    for token in (first, other, again):
        rig.run(token, granted=1)
    rig.work()
    assert slots_of(rig, other) == slots_of(rig, again)
    assert {ready.slab for ready in rig.ready(first)} != {r.slab for r in rig.ready(other)}
    assert rig.counters()["groups"] == 2
    token = rig.hello()
    rig.send(token, make_open(group=GROUP, rank=2, world_size=3))
    assert "world_size: was 2, is 3" in rig.errors(token)[0].message


def test_sessions_without_a_group_share_nothing(rig):
    first, second = rig.open(), rig.open()
    rig.run(first, granted=1)
    rig.run(second, granted=1)
    rig.work()
    assert rig.counters()["rows_total"] == 32
    assert rig.counters()["members"] == 0


def test_slabs_of_groups_are_read_only_for_all_members(rig):
    join(rig)
    join(rig)
    rig.open()
    assert [one.writable for one in of(rig.said, ins.SendSlab)] == [False, False, True]


def test_members_that_come_while_the_first_one_opens(rig, make_open, make_result):
    first, second, third = rig.hello(), rig.hello(), rig.hello()
    (build,) = of(rig.send(first, make_open(group=GROUP)), ins.StartBuild)
    (slab,) = of(rig.do(ev.Built, make_result(build.request.build)), ins.ReserveSlab)
    for token in (second, third):
        assert not rig.send(token, make_open(group=GROUP)), "its turn comes"
    rig.end(first, "die")
    said = rig.do(ev.SlabReserved, slab.slab)
    assert of(said, ins.ShrinkSlab), "what the first one brought"
    for token in (second, third):
        (growth,) = of(said, ins.GrowSlab)
        said = rig.do(ev.SlabReserved, growth.slab)
        assert of(rig.sent(token), Opened)
    rig.run(second)
    rig.work()
    assert len(rig.ready(second)) == 3


def test_a_refused_slab_of_the_first_member_is_tried_by_the_next(rig, make_open, make_result):
    first, second = rig.hello(), rig.hello()
    (build,) = of(rig.send(first, make_open(group=GROUP)), ins.StartBuild)
    (slab,) = of(rig.do(ev.Built, make_result(build.request.build)), ins.ReserveSlab)
    rig.send(second, make_open(group=GROUP))
    (again,) = of(rig.do(ev.SlabRefused, slab.slab, "no memory"), ins.ReserveSlab)
    assert rig.errors(first)[0].code == "resource"
    rig.do(ev.SlabReserved, again.slab)
    assert of(rig.sent(second), Opened)


def test_a_member_whose_memory_is_refused(rig, make_open):
    first, second = join(rig), rig.hello()
    (growth,) = of(rig.send(second, make_open(group=GROUP)), ins.GrowSlab)
    used = rig.counters()["memory_used_bytes"]
    rig.do(ev.SlabRefused, growth.slab, "no memory")
    (error,) = rig.errors(second)
    assert "the kernel refused 20480 bytes for 5 slots" in error.message
    assert rig.counters()["memory_used_bytes"] < used
    assert rig.counters()["coming_slots"] == 0
    rig.run(first)
    rig.work()
    assert len(rig.ready(first)) == 3
    rig.open(second, group=GROUP)


def test_the_budget_holds_for_members_too(make_rig, make_open):
    rig = make_rig(memory_limit_bytes=8 * 4096)
    rig.up(1, 2)
    join(rig)
    token = rig.hello()
    rig.send(token, make_open(group=GROUP))
    (error,) = rig.errors(token)
    assert error.code == "resource"
    assert "not enough memory: needed 20480 bytes (5 batches of 4096" in error.message


def test_the_limit_of_a_session_holds_for_members_too(make_rig, make_open):
    rig = make_rig(session_limit_bytes=6 * 4096)
    rig.up(1, 2)
    join(rig)
    token = rig.hello()
    rig.send(token, make_open(group=GROUP, prefetch=5))
    (error,) = rig.errors(token)
    assert "too much memory for one session: needed 28672 bytes (7 batches" in error.message
    rig.open(token, group=GROUP)


def test_a_group_has_room_for_64_times_its_first_member(make_rig, make_open):
    rig = make_rig(memory_limit_bytes=2**30, max_sessions=4096)
    rig.up(1, 2)
    join(rig, prefetch=1, leases=1)
    token = rig.hello()
    rig.send(token, make_open(group=GROUP, prefetch=190, leases=100))
    (error,) = rig.errors(token)
    assert error.code == "resource"
    assert "has room for 192 slots in all, and 1 members; this one needs 290 more" in error.message


def test_a_name_is_free_again_after_its_last_member(rig):
    first = join(rig)
    rig.end(first)
    second = join(rig, seed=8)
    rig.run(second)
    rig.work()
    assert len(rig.ready(second)) == 3


def test_64_members(make_rig):
    rig = make_rig(memory_limit_bytes=2**30)
    rig.up(1, 2)
    members = [join(rig) for _ in range(64)]
    for token in members:
        rig.run(token)
    rig.work()
    assert rig.counters()["rows_total"] == 3 * 16
    assert all(len(of(rig.sent(token), Ready)) == 3 for token in members)
    assert not any(of(rig.sent(token), Error) for token in members)


def test_a_group_of_a_given_size_begins_with_its_last_member(rig):
    first, second = (join(rig, group_size=2) for _ in range(2))
    rig.run(first)
    rig.work()
    assert rig.counters()["rows_total"] == 0
    rig.run(second)
    rig.work()
    assert places(rig, first) == places(rig, second) == [(0, 0), (0, 1), (0, 2)]
    assert rig.counters()["rows_total"] == 48
    late = join(rig, group_size=2)
    rig.run(late, epoch=7)
    rig.work()
    assert len(rig.ready(late)) == 3, "it waits for no other member"


def test_a_group_begins_without_members_that_never_come(rig):
    first, gone = (join(rig, group_size=3) for _ in range(2))
    rig.run(first)
    rig.run(gone)
    rig.end(gone, "die")
    rig.tick(59)
    rig.work()
    assert not rig.ready(first)
    rig.tick(2)
    rig.work()
    assert len(rig.ready(first)) == 3
    (line,) = [one for one in of(rig.said, ins.Log) if one.event == "group_begins_without_all"]
    assert (line.facts["members"], line.facts["expected"]) == (1, 3)


@pytest.mark.parametrize("mode", ["mirror", "fork"])
def test_a_group_that_began_at_other_daemons_waits_for_nobody(rig, mode):
    """Also one whose first member came before that was known."""
    first = join(rig, group_size=3, mode=mode)
    rig.run(first)
    rig.work()
    assert not rig.ready(first)
    second = join(rig, group_size=3, mode=mode, begun=True)
    rig.run(second)
    rig.work()
    assert [len(rig.ready(token)) for token in (first, second)] == [3, 3]
    assert not [one for one in of(rig.said, ins.Log) if one.event == "group_begins_without_all"]


def test_a_member_counts_once_however_often_it_seeks(rig):
    first = join(rig, group_size=2)
    rig.run(first)
    rig.run(first, run=2)
    rig.work()
    assert not rig.ready(first)


def test_each_rank_waits_for_the_members_of_its_own(rig):
    ranks = [join(rig, group_size=2, rank=rank, world_size=2) for rank in (0, 1, 0)]
    for token in ranks:
        rig.run(token)
    rig.work()
    assert [len(rig.ready(token)) for token in ranks] == [3, 0, 3]
