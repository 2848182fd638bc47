"""The invariants of the core, a second time: from slots, claims and ranges, not from its queues."""

from collections import Counter
from typing import Any

from stoker.server.state.groups.group_delivery import AHEAD_OF_CREDITS
from stoker.server.state.groups.slot_pool import SlotState

WRITTEN = {SlotState.FILLING, SlotState.CANCELLED, SlotState.RETIRED}


def check(world: Any) -> None:
    """The invariants, from the core's data."""
    core, settings = world.core, world.settings
    pool, groups = core._pool, core._groups
    assert pool.wanted == world.wanted
    staying = sum(not one.retires and not one.given_up for one in pool.workers.values())
    assert pool.closed or staying + len(pool._restarts) == pool.wanted
    claims = [claim for worker in pool.workers.values() for claim in worker.claims.values()]
    assert len(claims) == core._scheduler.claims
    writers = Counter(id(claim.batch.slot) for claim in claims)
    rows = Counter()
    for claim in claims:
        rows[id(claim.batch)] += claim.hi - claim.lo
    used_bytes = sum(group.slab.used_bytes for group in groups.by_number.values())
    cohorts = {id(group.cohort): group.cohort for group in groups.by_number.values()}.values()
    used_bytes += sum(cohort.size_bytes for cohort in cohorts) * settings.workers
    assert used_bytes == core._budget.used_bytes <= settings.memory_limit_bytes
    for group in groups.by_number.values():
        promised = sum(len(growth.slots) for growth in group.slab.waiting) * group.slab.slot_bytes
        unfreed = len(group.slots.left) * group.slab.slot_bytes
        assert world.reserved[group.number] == group.slab.used_bytes - promised, unfreed
    assert len(core._sessions.by_token) <= settings.max_sessions
    assert all(g.number in groups.by_number for cohort in cohorts for g in cohort.groups)
    assert all(group in group.cohort.groups for group in groups.by_number.values())
    work = False
    for group in groups.by_number.values():
        assert group.claims == sum(claim.batch.group is group for claim in claims)
        check_slots(group, writers)
        if not group.closing:
            check_sharing(group)
            for member in group.members.values():
                check_run(group, member, rows)
                limit_bytes = settings.session_limit_bytes or used_bytes
                assert member.quota * group.slab.slot_bytes <= limit_bytes
            unclaimed = any(b.unclaimed for run in group.runs for b in run.pending)
            work = work or (unclaimed and not core._scheduler.is_suspected(group))
    if work and world.exit is None:
        for worker in pool.workers.values():
            if worker is pool.apart or worker.retires:
                continue
            room = 1 if worker.stalls(world.now) else settings.outstanding
            idle = worker.up and worker.killed_at is None and len(worker.claims) < room
            assert not idle, "work and an idle worker"


def check_slots(group: Any, writers: Counter[int]) -> None:
    slots, free = group.slots.slots, group.slots._free
    assert sorted(s.index for s in free) == [s.index for s in slots if s.state is SlotState.FREE]
    states = [slot.state for slot in slots]
    spare = states.count(SlotState.SPARE)
    assert spare <= 1 <= spare + states.count(SlotState.RETIRED)
    for slot in slots:
        assert slot.writers == writers[id(slot)]
        assert not slot.writers or slot.state in WRITTEN
        assert bool(slot.holders) == (slot.state is SlotState.LEASED)
    pending = {id(batch.slot) for run in group.runs for batch in run.pending}
    for slot in slots:
        under_way = slot.state in (SlotState.FILLING, SlotState.READY)
        leased = slot.state is SlotState.LEASED
        assert group.closing or leased or under_way == (id(slot) in pending), slot.state


def check_sharing(group: Any) -> None:
    """Slots, members and the batches in the slots agree."""
    slots = group.slots.slots
    states = [slot.state for slot in slots]  # counting a list is cheaper than a Counter of enums
    coming = states.count(SlotState.COMING)
    present = len(slots) - states.count(SlotState.GONE) - coming
    held = present + coming + len(group.slots.left)
    assert group.slab.used_bytes == held * group.slab.slot_bytes
    assert not (group.slots.owed and group.slots._free)
    quotas = sum(member.quota for member in group.members.values())
    read_on = sum(group.departed.values())
    assert present - 1 - group.slots.owed == quotas + read_on, "each member has brought its slots"
    runs = {id(run) for run in group.runs}
    waited = 0
    for index, batch in group.by_slot.items():
        assert batch.slot is slots[index]
        assert batch.slot.state not in (SlotState.FREE, SlotState.GONE, SlotState.CANCELLED)
        assert all(id(run) in runs and batch in run.pending for run in batch.runs)
        assert batch.slot.holders <= batch.had
        waited += bool(batch.runs)
    assert waited == group.under_way
    for slot in slots:
        if slot.state in (SlotState.READY, SlotState.LEASED, SlotState.KEPT, SlotState.FILLING):
            assert slot.index in group.by_slot, slot.state
    for batch in group.by_place.values():
        assert group.by_slot[batch.slot.index] is batch
    held = Counter(token for slot in slots for token in slot.holders)
    for token, member in group.members.items():
        pending = len(member.run.pending) if member.run else 0
        assert member.held == held[token]
        assert member.held + pending <= member.quota
    if group.starved:
        idle = states.count(SlotState.FREE) + states.count(SlotState.KEPT)
        assert not idle, "a member waits for a slot, and one is idle"
        assert {SlotState.CANCELLED, SlotState.RETIRED} & set(states), "waits for another member"


def check_run(group: Any, member: Any, rows: Counter[int]) -> None:
    run = member.run
    if run is None:
        return
    assert group.record.fork or len(run.pending) <= run.credits + AHEAD_OF_CREDITS
    assert [b.place for b in run.pending] == sorted({b.place for b in run.pending})
    for batch in run.pending:
        unclaimed = sum(r.hi - r.lo for r in batch.ranges)
        assert batch.unclaimed == unclaimed
        assert not batch.void
        if batch.failure is None:
            assert batch.missing == unclaimed + rows[id(batch)]
        assert (batch in group.open) == (unclaimed > 0)
        assert run in batch.runs
    if run.pending:
        waits = run.pending[0].missing or not run.credits
        assert waits, "a batch in turn that is not announced"
    failed = any(batch.failure is not None for batch in run.pending)
    assert run.ended or run.ending == failed, "a run ends in the turn of a batch that failed"
    idle = group.slots._free or any(s.state is SlotState.KEPT for s in group.slots.slots)
    if not group.cohort.is_open:
        assert not run.pending
    elif not run.ended and not run.ending and idle and member.has_room and not group.open:
        assert len(run.pending) >= run.credits, "a free slot, a credit and no batch begun"
    assert not run.ended or not run.pending
