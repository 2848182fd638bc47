"""Sharing of batches among the members of a group, and the memory that they use.

Each member has its own run. A run that comes to a place looks for a batch of that place in the
group's slots, being filled, announced to others, or kept, and waits for it; otherwise it begins
one. So the first member at a place drives production, and each later one gets the same slot, as
long as the batch is there. A batch whose last holder released it is kept while a member is still on
its way to it. If a slot is needed, the kept batch that is farthest ahead of the nearest such member
goes, and is computed again for the member that comes to it: no member waits for a member that lags.

No batch is announced twice to one session: the generation of a slot grows with each announcement,
so a session that seeks back gets another slot.

Each member brings `quota` slots, and its held and pending batches are at most as many. So a member
with room always finds a slot, without waiting for another member:

    slots in use <= sum over members of (held + pending) < sum of quotas = slots without the spare.

After a member leaves, as many slots as it brought are removed as soon as they are free.
"""

from stoker.protocol.remote.shares import Place
from stoker.server.state.budget import Budget
from stoker.server.state.core_context import Counts
from stoker.server.state.groups.group import BatchState, Group, Member, Run
from stoker.server.state.groups.slot_pool import Slot, SlotState

_FAR = 2**62


def find(group: Group, member: Member, run: Run) -> BatchState | None:
    """Return a batch for the next place of a member's run that is in a slot, or on its way."""
    if not group.is_mirror:
        return None
    crashed = group.crashed(run, run.epoch, run.step)
    batch = group.by_place.get((run.epoch, run.step, crashed))
    if batch is None or member.token in batch.had:
        return None
    if batch.slot.state is SlotState.KEPT:
        group.slots.reuse(batch.slot)
    return batch


def take_slot(counts: Counts, group: Group) -> Slot | None:
    """Return a slot to fill: a free one, or one whose batch was kept; None without such a slot.

    A kept one may be owed for a member that has left, and then another one is needed.
    """
    slot = group.slots.take()
    while slot is None and _drop_kept(counts, group):
        slot = group.slots.take()
    return slot


def wait_for(run: Run, batch: BatchState) -> None:
    """Add a batch to those that a run waits for."""
    batch.group.under_way += not batch.runs
    batch.runs.append(run)
    run.pending.append(batch)
    run.begun += 1


def leave(run: Run, batch: BatchState) -> None:
    """Note that a run waits for a batch no longer, which is not in its `pending` any more."""
    batch.runs.remove(run)
    batch.group.under_way -= not batch.runs


def drop(group: Group, run: Run, kept: int) -> None:
    """Drop the pending batches of a run, except for the first ones.

    One that no other run waits for is no longer computed; a complete one may be kept.
    """
    while len(run.pending) > kept:
        batch = run.pending.pop()
        leave(run, batch)
        if batch.runs or batch.slot.state is SlotState.LEASED:
            continue
        if batch.slot.state is not SlotState.READY:
            batch.drop()
            group.forget(batch)
        group.slots.void(batch.slot)


def depart(counts: Counts, budget: Budget, group: Group, member: Member, *, reads_on: bool) -> None:
    """Release the slots of a member that has left, whose run has ended, and let go what it brought.

    Args:
        counts: the core's.
        budget: the memory budget.
        group: the group without the member.
        member: the member.
        reads_on: whether its client may still read the slots that it holds; they are not used
            again until `free_departed`.
    """
    kept = member.held if reads_on else 0
    if kept:
        group.departed[member.token] = kept
    else:
        group.slab.release_all(member.token)
    budget.give(0, group.stream.build)
    withdraw(counts, group, member.quota - kept)


def free_departed(counts: Counts, group: Group, token: bytes) -> None:
    """Release the slots of a session that ended before, whose client is gone now."""
    group.slab.release_all(token)
    withdraw(counts, group, group.departed.pop(token))


def withdraw(counts: Counts, group: Group, count: int) -> None:
    """Let this many slots go, kept ones at once."""
    group.slots.withdraw(count)
    while group.slots.owed and _drop_kept(counts, group):
        pass
    group.slab.shrink()


def _drop_kept(counts: Counts, group: Group) -> bool:
    """Give up the kept batch that is needed last; whether there was one."""
    kept = [b for b in group.by_slot.values() if b.slot.state is SlotState.KEPT]
    if not kept:
        return False
    batch = max(kept, key=lambda one: _distance(group, one))
    counts.dropped_batches += group.is_awaited(batch)
    group.forget(batch)
    group.slots.give_up(batch.slot)
    return True


def _distance(group: Group, batch: BatchState) -> int:
    """Return how many steps the nearest member on its way to a batch has before it."""
    return min(
        (
            steps_between(group, member.place, batch.place)
            for member in group.members.values()
            if member.will_ask_for(batch.place) and member.token not in batch.had
        ),
        default=_FAR,
    )


def steps_between(group: Group, first: Place, last: Place) -> int:
    """Return the steps from a place to a later one, as if all epochs had as many."""
    return (last[0] - first[0]) * group.steps.count(first[0]) + last[1] - first[1]
