"""The slots of a slab, alone."""

import pytest

from stoker.server.state.groups.slot_pool import SlotPool, SlotState


@pytest.fixture
def pool():
    return SlotPool(4)


def states(pool):
    return [slot.state.value for slot in pool.slots]


def test_the_last_slot_is_the_spare(pool):
    assert states(pool) == ["free", "free", "free", "spare"]
    taken = [pool.take() for _ in range(4)]
    assert [slot and slot.index for slot in taken] == [0, 1, 2, None]


def test_round_trip(pool):
    slot = pool.take()
    assert (slot.state, slot.generation) == (SlotState.FILLING, 1)
    pool.complete(slot)
    pool.lease(slot, b"a")
    assert slot.state is SlotState.LEASED
    assert pool.release(0, 1, b"a")
    assert slot.state is SlotState.FREE
    assert pool.take() is slot
    assert slot.generation == 2


def test_a_slot_is_leased_until_its_last_holder_releases_it(pool):
    slot = pool.take()
    pool.complete(slot)
    for holder in (b"a", b"b", b"c"):
        pool.lease(slot, holder)
    assert pool.release(0, 1, b"b")
    assert not pool.release(0, 1, b"b")
    assert pool.release(0, 1, b"a")
    assert slot.state is SlotState.LEASED
    assert pool.release(0, 1, b"c")
    assert slot.state is SlotState.FREE


@pytest.mark.parametrize(
    ("index", "generation", "holder"), [(0, 2, b"a"), (0, 1, b"x"), (1, 0, b"a"), (4, 1, b"a")]
)
def test_stale_releases(pool, index, generation, holder):
    slot = pool.take()
    pool.complete(slot)
    pool.lease(slot, b"a")
    assert not pool.release(index, generation, holder)
    assert slot.state is SlotState.LEASED


def test_a_voided_slot_waits_for_its_writers(pool):
    slot = pool.take()
    slot.writers = 2
    pool.void(slot)
    assert slot.state is SlotState.CANCELLED
    pool.writer_ended(slot)
    assert slot.state is SlotState.CANCELLED
    pool.writer_ended(slot)
    assert slot.state is SlotState.FREE


@pytest.mark.parametrize("complete", [True, False])
def test_a_voided_slot_without_writers_is_free(pool, complete):
    slot = pool.take()
    if complete:
        pool.complete(slot)
    pool.void(slot)
    assert slot.state is SlotState.FREE


@pytest.mark.parametrize("voided", [True, False])
def test_the_spare_takes_the_place_of_a_retired_slot(pool, voided):
    slot = pool.take()
    slot.writers = 1
    if voided:
        pool.void(slot)
    assert pool.retire(slot)
    assert states(pool) == ["retired", "free", "free", "free"]
    assert pool.take() is pool.slots[3]
    pool.writer_ended(slot)
    assert states(pool) == ["spare", "free", "free", "filling"]


def test_there_is_one_spare(pool):
    first, second = pool.take(), pool.take()
    first.writers = second.writers = 1
    assert pool.retire(first)
    assert not pool.retire(second)
    assert states(pool) == ["retired", "retired", "free", "free"]
    pool.writer_ended(second)
    pool.writer_ended(first)
    assert states(pool) == ["free", "spare", "free", "free"]


def test_no_transition_out_of_order(pool):
    slot = pool.take()
    with pytest.raises(RuntimeError, match="slot 0: expected state ready, got filling"):
        pool.lease(slot, b"a")
    slot.writers = 1
    with pytest.raises(RuntimeError, match="slot 0: expected no writers of a complete slot, got 1"):
        pool.complete(slot)
    with pytest.raises(RuntimeError, match="slot 1: expected state filling, got free"):
        pool.complete(pool.slots[1])
    with pytest.raises(RuntimeError, match="slot 1: expected state filling, got free"):
        pool.retire(pool.slots[1])
    with pytest.raises(RuntimeError, match="slot 1: expected state ready, got free"):
        pool.void(pool.slots[1])
