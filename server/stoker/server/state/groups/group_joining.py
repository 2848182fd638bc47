"""Joining a group: its conditions, and the number of slots that a member brings.

All members of a name have one world size, and run the same code of users. Those of a mirror have
one StreamSpec, and ask alike for draw records and digests; those of a fork have one order. A
session that differs is refused with the differences. Each rank of the name has its own group,
because each has its own rows.

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
from stoker.protocol.request.stream_request import GroupRequest
from stoker.protocol.spec import StreamSpec, differences
from stoker.server.state.groups.group import Group, Member
from stoker.server.state.settings import Settings
from stoker.server.work.work_records import BuildResult, BuiltSource

MEMBERS = 64
"""Members of a group that all ask for as many slots as the first one."""
MAX_SLOTS = 2**20
MAX_SLAB_BYTES = 2**44
SPARE = 1
LEAST_PREFETCH = 2
"""Of a stream whose prefetch the daemon chooses."""
_OF_MEMBERS = ("pipeline", "seed", "freeze", "total_epochs", "on_error", "mix")
"""Fields of the spec in which members of a fork may differ."""


def capacity_of(request: Open, slots: int, slot_bytes: int) -> int:
    """Return for how many slots a new slab has room; without a group exactly its own."""
    group = request.delivery.group
    if group is None or group.mode == "fork":
        return slots
    return max(slots, min(slots * MEMBERS, MAX_SLOTS, MAX_SLAB_BYTES // slot_bytes))


def first_slots(settings: Settings, request: Open, slots: int, slot_bytes: int) -> int:
    """Return how many of this many slots have memory when the session opens, with the spare."""
    least = request.delivery.leases + LEAST_PREFETCH + SPARE
    return min(slots, max(least, settings.at_once_bytes // slot_bytes))


def find_mate(
    request: Open, spec: StreamSpec, build: BuildResult, groups: Iterable[Group]
) -> Group | None:
    """Return the group that a request joins, of a fork the group of a mate; None if it founds one.

    Raises:
        UsageError: the group of that name has another mode, or delivers something else.
    """
    asked = request.delivery.group
    if asked is None:
        return None
    mates = [
        group
        for group in groups
        if group.name == asked.name
        and not group.closing
        and (group.stopped is None or group.record.fork)
    ]
    if mates:
        _check_mode(asked, mates[0])
        _check_alike(request, asked, spec, build, mates[0])
    return next((group for group in mates if group.record.rank == request.rank), None)


def join(group: Group, token: bytes, first: int, slots: int, build: BuildResult) -> None:
    """Add a member, whose slots are reserved when it is their turn; the first ones open it.

    Raises:
        ResourceError: the group has no room for more slots, or the budget is not sufficient.
    """
    if not group.slab.join(token, first, slots, build):
        raise ResourceError(
            f"group {group.name!r} has room for {group.slab.capacity} slots in all, and"
            f" {len(group.members)} members; this one needs {slots} more: use a smaller prefetch,"
            " or another group for some of the members",
            members=len(group.members),
            slots=group.slab.capacity,
        )
    group.members[token] = Member(token, 0)


def _refuse_edited(name: str, build: BuildResult, code: tuple[tuple[str, str], ...]) -> None:
    """Refuse a member of a group of this name whose code is not that of the first one.

    Raises:
        UsageError: a file was edited in between.
    """
    was = dict(code)
    edited = [path for path, digest in build.code if was.get(path, digest) != digest]
    if edited:
        raise UsageError(
            f"group {name!r}: {edited[0]} was edited after the first member opened"
            " the stream, and the group runs the code from before: start all members again, or"
            " give this one another group",
            group=name,
        )


def order_of(spec: StreamSpec, parts: Iterable[BuiltSource] = ()) -> dict[str, object]:
    """Return what members of a fork have in common: which samples come when, as plain data.

    Args:
        spec: the stream of a member.
        parts: the datasets of its mixture, each of which may have a pipeline of the member.
    """
    data = {name: value for name, value in spec.to_data().items() if name not in _OF_MEMBERS}
    order = data["order"]
    assert isinstance(order, dict)
    data["order"] = {name: value for name, value in order.items() if name != "seed"}
    data["mixture"] = [(part.fingerprint, part.rows, part.share) for part in parts]
    drawn = spec.order.shuffle or spec.order.weights or spec.mix
    return data | {"shuffle_seed": spec.order_seed if drawn else None}


def _in_words(hosts: tuple[str, ...] | None) -> str:
    """Return which daemons members read from."""
    return "those of a directory" if hosts is None else ", ".join(hosts) or "this one alone"


def _check_mode(asked: GroupRequest, mate: Group) -> None:
    mode = "fork" if mate.record.fork else "mirror"
    if mode != asked.mode:
        raise UsageError(
            f"group {asked.name!r}: its members have mode={mode!r}, but this one asks for"
            f" mode={asked.mode!r}: give all the same mode, or this one another group",
            group=asked.name,
        )


def _check_alike(
    request: Open, group: GroupRequest, spec: StreamSpec, build: BuildResult, mate: Group
) -> None:
    theirs = mate.record
    fields: list[tuple[str, object, object]] = [
        ("world_size", theirs.world_size, request.world_size),
        ("group_size", mate.cohort.size, group.size),
        ("daemons", _in_words(mate.hosts), _in_words(group.hosts)),
    ]
    if theirs.fork:
        before, now = (
            order_of(mate.stream.spec, mate.stream.build.parts),
            order_of(spec, build.parts),
        )
        asked = "all members of a fork read the same samples in the same order"
    else:
        before, now = mate.stream.spec.to_data(), spec.to_data()
        params = bool(request.stream.params and build.params_bytes)
        fields.append(("params", theirs.params, params))
        fields.append(("verify", theirs.verify, request.delivery.verify))
        asked = "all its members read the same batches"
    changed = differences(before, now)
    changed += [f"{name}: was {was}, is {is_}" for name, was, is_ in fields if was != is_]
    if not changed:
        _refuse_edited(group.name, build, theirs.served.code)
        return
    remedy = "give all members the same arguments, or give this one another group"
    if {line.partition(":")[0] for line in changed} & {"order", "shuffle_seed"} == {"shuffle_seed"}:
        remedy = (
            "give all members shuffle=Shuffle(seed=...) with one seed; then their seed= may differ"
        )
    raise UsageError(
        f"group {group.name!r}: {asked}, but this one asks for others (was: the group; is: this"
        " member):\n  " + "\n  ".join(changed) + f"\n{remedy}",
        group=group.name,
    )
