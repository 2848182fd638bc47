"""A session opens with its first slots; the others follow, or the session ends."""

import pytest
from decided import of

from stoker.protocol.messages import Error, Opened, Release
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev

BYTES = 4096  # of a slot of the rig's outputs, up to 64 rows
FIRST, REST = 5, 4
"""With two leases: the leases, two more and a spare; and what prefetch=6 needs beyond them."""
GROUP = {"group": "sweep"}


@pytest.fixture
def rig(make_rig):
    rig = make_rig(at_once_bytes=0)
    rig.up(1, 2)
    return rig


def opened(rig, **changes):
    """Open a session, whose other slots have no memory yet."""
    return rig.open(**({"prefetch": 6} | changes))


def filled(rig, token, granted=9, epoch=0):
    """Let workers compute all they can; return how many batches the session got."""
    rig.run(token, granted=granted, epoch=epoch)
    rig.work()
    return len(rig.ready(token))


def test_a_session_opens_with_its_first_slots(rig):
    token = opened(rig)
    (slab,) = of(rig.said, ins.ReserveSlab)
    assert slab == ins.ReserveSlab(
        1, FIRST * BYTES, (FIRST + REST) * BYTES, needed_bytes=(FIRST + REST) * BYTES
    )
    assert of(rig.said, ins.GrowSlab) == [ins.GrowSlab(1, (5, 6, 7, 8), BYTES)]
    (answer,) = of(rig.sent(token), Opened)
    assert (answer.slots, answer.prefetch) == (FIRST + REST, 6)
    assert of(rig.said, ins.SendSlab)[0].slots == FIRST + REST
    assert rig.counters()["memory_used_bytes"] == (FIRST + REST) * BYTES, "it counts at once"
    assert rig.counters()["coming_slots"] == REST


def test_the_other_slots_are_filled_when_they_have_memory(rig):
    token = opened(rig)
    assert filled(rig, token) == FIRST - 1
    assert {one.slot for one in rig.ready(token)} < set(range(FIRST))
    rig.grow()
    rig.work()
    assert len(rig.ready(token)) == FIRST - 1 + REST, "without a word of the client"
    assert rig.counters()["coming_slots"] == 0


@pytest.mark.parametrize(
    ("at_once_bytes", "first"), [(0, 5), (6 * BYTES - 1, 5), (6 * BYTES, 6), (9 * BYTES, 9)]
)
def test_as_many_as_take_no_time(make_rig, at_once_bytes, first):
    rig = make_rig(at_once_bytes=at_once_bytes)
    opened(rig)
    assert of(rig.said, ins.ReserveSlab)[0].size_bytes == first * BYTES
    assert len(of(rig.said, ins.GrowSlab)) == (first < FIRST + REST)


def test_a_session_that_needs_no_more_is_complete(rig):
    opened(rig, prefetch=2)
    assert of(rig.said, ins.ReserveSlab)[0].size_bytes == FIRST * BYTES
    assert not of(rig.said, ins.GrowSlab)


@pytest.mark.parametrize("running", [True, False])
def test_a_session_whose_other_slots_are_refused_ends_with_the_numbers(rig, running):
    token, other = opened(rig), rig.open(prefetch=2)
    if running:
        filled(rig, token)
    said = rig.do(ev.SlabRefused, 1, "no memory")
    error = of(rig.sent(token), Error)[-1]
    assert (error.code, error.request, error.run) == ("resource", 0, None)
    assert f"the kernel refused {REST * BYTES} bytes for {REST} slots: no memory" in error.message
    assert of(said, ins.EndSession) == [ins.EndSession(token)]
    assert of(said, ins.FreeSlab) == [ins.FreeSlab(1)]
    assert rig.counters()["memory_used_bytes"] == FIRST * BYTES, "that of the other session"
    assert filled(rig, other, granted=2) == 2


@pytest.mark.parametrize("outcome", ["reserved", "refused", "never told"])
def test_a_session_that_leaves_while_it_grows(rig, outcome):
    token = opened(rig)
    rig.end(token)
    assert of(rig.said, ins.FreeSlab) == [ins.FreeSlab(1)]
    if outcome == "reserved":
        rig.do(ev.SlabReserved, 1)
    elif outcome == "refused":
        rig.do(ev.SlabRefused, 1, "no memory")
    assert rig.counters()["memory_used_bytes"] == rig.counters()["groups"] == 0


def test_a_member_that_waits_to_be_open_comes_before_the_rest_of_others(rig, make_open):
    opened(rig, **GROUP)  # its rest is being reserved
    second, third = rig.hello(), rig.hello()
    rig.send(second, make_open(prefetch=6, **GROUP))
    rig.send(third, make_open(prefetch=6, **GROUP))
    assert len(of(rig.said, ins.GrowSlab)) == 1, "one growth at a time"
    rig.grow()
    rig.grow()
    assert of(rig.sent(second), Opened)
    assert not of(rig.sent(third), Opened)
    rig.grow()
    assert of(rig.sent(third), Opened)
    sizes = [len(growth.slots) for growth in of(rig.said, ins.GrowSlab)]
    assert sizes == [REST, FIRST - 1, FIRST - 1, REST]
    rig.grow()
    rig.grow()
    assert rig.counters()["coming_slots"] == 0
    assert filled(rig, third) == FIRST - 1 + REST


def test_a_member_whose_other_slots_are_refused_ends_alone(rig):
    first = opened(rig, **GROUP)
    rig.grow()
    second = opened(rig, **GROUP)
    assert filled(rig, second) == FIRST - 1
    held = [(one.slot, one.generation) for one in rig.ready(second)]
    said = rig.grow(refuse=True)
    assert of(said, ins.EndSession) == [ins.EndSession(second)]
    assert of(rig.sent(second), Error)[-1].code == "resource"
    assert filled(rig, first, epoch=7) == FIRST - 1 + REST, "it has its own slots"
    assert {one.slot for one in rig.ready(first)}.isdisjoint(slot for slot, _ in held), (
        "the client may still read what it holds"
    )
    rig.end(second, "die")
    rig.send(first, Release([(one.slot, one.generation) for one in rig.ready(first)]))
    assert rig.counters()["memory_used_bytes"] == (FIRST + REST) * BYTES


def test_a_member_that_is_refused_and_asks_again_brings_its_slots_once(rig, make_open):
    opened(rig, **GROUP)
    rig.grow()
    second, third = rig.hello(), rig.hello()
    for token in (second, third):
        rig.send(token, make_open(prefetch=6, **GROUP))
    rig.grow(refuse=True)  # those of the second; the third one is next
    assert of(rig.sent(second), Error)[-1].request == 1
    rig.send(second, make_open(prefetch=6, **GROUP))
    for _ in range(4):
        rig.grow()
    assert of(rig.sent(second), Opened)
    assert rig.counters()["coming_slots"] == 0
    each = FIRST - 1 + REST
    assert rig.counters()["memory_used_bytes"] == (3 * each + 1) * BYTES
    assert filled(rig, second, granted=99) == each


def test_a_member_that_leaves_takes_the_slots_that_it_waits_for(rig):
    first = opened(rig, **GROUP)
    second = opened(rig, **GROUP)  # the rest of the first one, and its own, are not there
    rig.end(second)
    rig.grow()
    assert rig.counters()["coming_slots"] == 0
    assert rig.counters()["memory_used_bytes"] == (FIRST + REST) * BYTES
    assert filled(rig, first) == FIRST - 1 + REST


def test_a_refused_slab_takes_the_slots_that_would_follow(rig, make_open, make_result):
    token = rig.hello()
    rig.send(token, make_open(prefetch=6))
    number = of(rig.said, ins.StartBuild)[-1].request.build
    rig.do(ev.Built, make_result(number))
    rig.do(ev.SlabRefused, 1, "no memory")
    assert rig.counters()["memory_used_bytes"] == rig.counters()["groups"] == 0
    assert of(rig.sent(token), Error)[-1].request == 1
    rig.open(token, prefetch=6)
