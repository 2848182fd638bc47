"""The slots that a session brings: which group they are for, and when they get their memory.

All members of a name have one StreamSpec and one world size, run the same code of users, and ask
alike for draw records and digests; a session that differs is refused with the differences. Each
rank of the name has its own group, because each has its own rows.

The first member founds the group: its slab has room for `MEMBERS` times its own slots, of which
only its own have memory. A further member brings its slots: their memory is reserved in turn, one
growth of a slab at a time, and then it is open. Until then it uses no slot.

To reserve memory takes time, so a session is open as soon as its first slots have theirs: as many
as its caller may hold, and a few more. The others follow while it reads the first batches. Its
budget is taken for all of them before. If the kernel refuses them later, the session ends.
"""

from collections.abc import Iterable

from stoker.protocol.errors import ResourceError, UsageError
from stoker.protocol.messages import Open
from stoker.protocol.spec import StreamSpec, differences
from stoker.server.state.admission import Growth
from stoker.server.state.budget import Budget
from stoker.server.state.context import CoreContext
from stoker.server.state.groups import Group, Member
from stoker.server.state.instructions import GrowSlab
from stoker.server.state.settings import Settings
from stoker.server.state.sharing import withdraw
from stoker.server.work.records import BuildResult

MEMBERS = 64
"""Members of a group that all ask for as many slots as the first one."""
MAX_SLOTS = 2**20
MAX_SLAB_BYTES = 2**44
SPARE = 1
LEAST_PREFETCH = 2
"""Of a stream whose prefetch the daemon chooses."""


def capacity_of(request: Open, slots: int, slot_bytes: int) -> int:
    """Return for how many slots a new slab has room; without a group exactly its own."""
    if request.group is None or request.mode == "fork":
        return slots
    return max(slots, min(slots * MEMBERS, MAX_SLOTS, MAX_SLAB_BYTES // slot_bytes))


def first_slots(settings: Settings, request: Open, slots: int, slot_bytes: int) -> int:
    """Return how many of this many slots have memory when the session opens, with the spare."""
    least = request.leases + LEAST_PREFETCH + SPARE
    return min(slots, max(least, settings.at_once_bytes // slot_bytes))


def group_of(
    request: Open, spec: StreamSpec, build: BuildResult, groups: Iterable[Group]
) -> Group | None:
    """Return the group that a request joins; None if it founds one.

    Raises:
        UsageError: the group of that name delivers another stream, or in another way.
    """
    if request.group is None:
        return None
    mates = [
        group
        for group in groups
        if group.name == request.group and not group.closing and group.stopped is None
    ]
    if mates:
        _check_alike(request, spec, build, mates[0])
    return next((group for group in mates if group.record.rank == request.rank), None)


def follow(group: Group, token: bytes, slots: int) -> None:
    """Note the slots of the first member that follow when the slab is reserved."""
    if not slots:
        return
    chosen = group.slots.plan(slots, group.capacity)
    assert chosen is not None  # the slab was made for them
    group.used_bytes += slots * group.slot_bytes
    group.growths.append(Growth(token, chosen, opens=False))


def join(
    budget: Budget, group: Group, token: bytes, first: int, slots: int, build: BuildResult
) -> None:
    """Add a member, whose slots are reserved when it is their turn; the first ones open it.

    Raises:
        ResourceError: the group has no room for more slots, or the budget is not sufficient.
    """
    chosen = group.slots.plan(slots, group.capacity)
    if chosen is None:
        raise ResourceError(
            f"group {group.name!r} has room for {group.capacity} slots in all, and"
            f" {len(group.members)} members; this one needs {slots} more: use a smaller prefetch,"
            " or another group for some of the members",
            members=len(group.members),
            slots=group.capacity,
        )
    try:
        budget.take(slots, group.slot_bytes, build)
    except ResourceError:
        group.slots.cancel(chosen)
        raise
    group.used_bytes += slots * group.slot_bytes
    group.members[token] = Member(token, 0)
    group.growths.append(Growth(token, chosen[:first], opens=True))
    if chosen[first:]:
        group.growths.append(Growth(token, chosen[first:], opens=False))


def begin_growth(context: CoreContext, budget: Budget, group: Group) -> None:
    """Reserve the slots whose turn it is, unless a growth is under way; who waits comes first."""
    while group.reserved and group.growths and group.growing is None:
        growth = next((one for one in group.growths if one.opens), group.growths[0])
        group.growths.remove(growth)
        if growth.token in group.members:
            group.growing = growth
            context.out.append(GrowSlab(group.slab, tuple(growth.slots), group.slot_bytes))
        else:
            _give_back(budget, group, growth)


def end_growth(context: CoreContext, group: Group, growth: Growth) -> None:
    """Let the member use its slots, whose memory is there; they go again if it has left."""
    group.growing = None
    group.slots.admit(growth.slots)
    member = group.members.get(growth.token)
    if member is None:
        withdraw(context, group, len(growth.slots))
    else:
        member.quota += len(growth.slots)


def fail_growth(budget: Budget, group: Group, growth: Growth) -> None:
    """Give up the slots whose memory was refused, and those of that member which would follow."""
    group.growing = None
    _give_back(budget, group, growth)
    for later in [one for one in group.growths if one.token == growth.token]:
        group.growths.remove(later)
        _give_back(budget, group, later)


def _give_back(budget: Budget, group: Group, growth: Growth) -> None:
    size_bytes = len(growth.slots) * group.slot_bytes
    group.slots.cancel(growth.slots)
    group.used_bytes -= size_bytes
    budget.give_slots(size_bytes)


def refuse_edited(request: Open, build: BuildResult, sources: tuple[tuple[str, str], ...]) -> None:
    """Refuse a member whose code is not that of the first one, of which `sources` are.

    Raises:
        UsageError: a file was edited in between.
    """
    was = dict(sources)
    edited = [path for path, digest in build.sources if was.get(path, digest) != digest]
    if edited:
        raise UsageError(
            f"group {request.group!r}: {edited[0]} was edited after the first member opened"
            " the stream, and the group runs the code from before: start all members again, or"
            " give this one another group",
            group=request.group,
        )


def _check_alike(request: Open, spec: StreamSpec, build: BuildResult, mate: Group) -> None:
    theirs = mate.record
    changed = differences(mate.stream.spec.to_data(), spec.to_data())
    for name, before, now in (
        ("world_size", theirs.world_size, request.world_size),
        ("params", theirs.params, bool(request.params and build.params_bytes)),
        ("verify", theirs.verify, request.verify),
        ("group_size", mate.gate.size, request.group_size),
    ):
        if before != now:
            changed.append(f"{name}: was {before}, is {now}")
    if not changed:
        refuse_edited(request, build, theirs.sources)
    else:
        raise UsageError(
            f"group {request.group!r}: all its members read the same batches, but this one asks for"
            " others (was: the group; is: this member):\n  " + "\n  ".join(changed) + "\ngive all"
            " members the same arguments, or give this one another group",
            group=request.group,
        )
