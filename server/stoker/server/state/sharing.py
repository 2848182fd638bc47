"""Which batches the members of a group share, and whose memory they use.

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

When a member leaves, as many slots go as it brought, as soon as they are free.
"""

from stoker.protocol.errors import ResourceError, UsageError
from stoker.protocol.messages import Seek
from stoker.protocol.remote.shares import Place
from stoker.server.state.budget import Budget
from stoker.server.state.context import CoreContext
from stoker.server.state.groups import BatchState, Group, Member, Run
from stoker.server.state.instructions import ShrinkSlab
from stoker.server.state.slots import Slot, SlotState

_FAR = 2**62


def find(group: Group, member: Member, run: Run) -> BatchState | None:
    """Return a batch for the next place of a member's run that is in a slot, or on its way."""
    if not group.name:
        return None
    crashed = group.crashed(run, run.epoch, run.step)
    batch = group.by_place.get((run.epoch, run.step, crashed))
    if batch is None or member.token in batch.had:
        return None
    if batch.slot.state is SlotState.KEPT:
        group.slots.reuse(batch.slot)
    return batch


def take(context: CoreContext, group: Group) -> Slot | None:
    """Return a slot to fill: a free one, or one whose batch was kept; None if there is none.

    A kept one may be owed for a member that has left, and then another one is needed.
    """
    slot = group.slots.take()
    while slot is None and _drop_kept(context, group):
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


def depart(
    context: CoreContext, budget: Budget, group: Group, member: Member, *, reads_on: bool
) -> None:
    """Release the slots of a member that has left, whose run has ended, and let go what it brought.

    Args:
        context: the core's.
        budget: the memory budget.
        group: the group without the member.
        member: the member.
        reads_on: whether its client may still read the slots that it holds; they are not used
            again until `bury`.
    """
    kept = member.held if reads_on else 0
    if kept:
        group.ghosts[member.token] = kept
    else:
        _release_all(group, member.token)
    budget.give(0, group.stream.build)
    withdraw(context, group, member.quota - kept)
    shrink(context, budget, group)


def bury(context: CoreContext, budget: Budget, group: Group, token: bytes) -> None:
    """Release the slots of a session that ended before, whose client is gone now."""
    _release_all(group, token)
    withdraw(context, group, group.ghosts.pop(token))
    shrink(context, budget, group)


def _release_all(group: Group, token: bytes) -> None:
    for slot in group.slots.slots:
        group.slots.release(slot.index, slot.generation, token)


def shrink(context: CoreContext, budget: Budget, group: Group) -> None:
    """Have the memory of slots freed that are gone."""
    left = group.slots.left
    if left and group.reserved and not group.closing:
        size_bytes = len(left) * group.slot_bytes
        context.out.append(ShrinkSlab(group.slab, tuple(left), group.slot_bytes))
        left.clear()
        group.used_bytes -= size_bytes
        budget.give_slots(size_bytes)


def withdraw(context: CoreContext, group: Group, count: int) -> None:
    """Let this many slots go, kept ones at once."""
    group.slots.withdraw(count)
    while group.slots.owed and _drop_kept(context, group):
        pass


def _drop_kept(context: CoreContext, group: Group) -> bool:
    """Give up the kept batch that is needed last; whether there was one."""
    kept = [b for b in group.by_slot.values() if b.slot.state is SlotState.KEPT]
    if not kept:
        return False
    batch = max(kept, key=lambda one: _distance(group, one))
    context.counts.dropped_batches += group.comes_to(batch)
    group.forget(batch)
    group.slots.give_up(batch.slot)
    return True


def _distance(group: Group, batch: BatchState) -> int:
    """Return how many steps the nearest member on its way to a batch has before it."""
    return min(
        (
            steps_between(group, member.place, batch.place)
            for member in group.members.values()
            if member.comes_to(batch.place) and member.token not in batch.had
        ),
        default=_FAR,
    )


def steps_between(group: Group, first: Place, last: Place) -> int:
    """Return the steps from a place to a later one, as if all epochs had as many."""
    return (last[0] - first[0]) * group.course.steps(first[0]) + last[1] - first[1]


def no_such_step(record: Seek, steps: int) -> UsageError:
    """Return the error of a SEEK to a step that an epoch of this many steps does not have."""
    return UsageError(
        f"SEEK: expected a step from 0 to {steps}, the number of steps of an epoch,"
        f" got {record.step}",
        epoch=record.epoch,
        step=record.step,
    )


def no_spare(group: Group) -> ResourceError:
    """Return the error of a group that has no spare slot left."""
    return ResourceError(
        f"slab {group.slab}: two workers that were killed cannot be confirmed dead, and there"
        " is only one spare slot; open a new session, and check what blocks the workers"
        " (state D in ps: usually a network file system)",
        slab=group.slab,
    )
