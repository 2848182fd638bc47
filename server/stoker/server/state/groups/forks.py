"""Forks: sessions that read the same samples in the same order, each by its own seed and pipeline.

Each member has a stream, a group and a slab of its own, as if it were alone; so its bytes are those
of a lone session, and no member waits for another. A fork only arranges who computes what, where
and when, so that a sample is decoded once for all members that are in step:

- A run that begins a batch makes its mates begin theirs at the same place, if they have room. One
  that is behind, by less than its slots, begins batches ahead of its credits until it is in step.
- Rows that are claimed for one member are claimed for its mates at that place too, for the same
  worker, right behind. The worker decodes what they read once, into `size_bytes` of memory.

A member that is farther behind computes its batches alone. Memory grows to what the largest row of
any member needs, and is given back with the last one.
"""

from stoker.protocol.errors import ResourceError
from stoker.protocol.remote.shares import Place
from stoker.protocol.request.stream_request import GroupRequest
from stoker.server.state.budget import REMEDY, Budget
from stoker.server.state.groups.group import BatchState, Group, Member
from stoker.server.state.groups.joining import MEMBERS
from stoker.server.state.groups.sharing import steps_between
from stoker.server.state.groups.start_gate import StartGate
from stoker.server.work.records import BuildResult

ROWS = 64
"""Rows of usual size for which a worker has room, if they fit into `MOST_BYTES`."""
MOST_BYTES = 2**25
"""The memory of a worker for rows of usual size; more only if one row needs it."""
NOWHERE: Place = (-1, 0)


class Fork:
    """The groups of one name and rank.

    Attributes:
        number: that of its first group; workers know it by this number.
        gate: whether they have begun.
        groups: those of its members.
        size_bytes: the memory of each worker for decoded samples; 0: no member decodes anything.
        usual_bytes: what a row of usual size needs of it.
    """

    __slots__ = ("gate", "groups", "number", "size_bytes", "usual_bytes")

    def __init__(self, number: int, group_size: int) -> None:
        self.number = number
        self.gate = StartGate(group_size)
        self.groups: list[Group] = []
        self.size_bytes = 0
        self.usual_bytes = 0

    @property
    def most_rows(self) -> int:
        """The most rows of a chunk, so that their samples fit into the memory; some are larger."""
        return max(self.size_bytes * 3 // 4 // max(self.usual_bytes, 1), 1)


class Forks:
    """All forks, by number."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.by_number: dict[int, Fork] = {}

    def enter(
        self, fork: Fork | None, number: int, asked: GroupRequest, build: BuildResult
    ) -> Fork:
        """Prepare for a member; found a fork with the number of its group, if it does not exist.

        `add` or `leave` must follow.

        Raises:
            ResourceError: the fork has `MEMBERS`, or the budget has not enough memory for the
                decoded samples.
        """
        if fork is not None and len(fork.groups) >= MEMBERS:
            raise ResourceError(
                f"group {asked.name!r} has {MEMBERS} members, the most of a fork: use another"
                " group for some of the members",
                members=MEMBERS,
            )
        one = Fork(number, asked.size) if fork is None else fork
        usual_bytes = max(one.usual_bytes, build.usual_bytes)
        size_bytes = max(min(ROWS * usual_bytes, MOST_BYTES), build.decoded_bytes, one.size_bytes)
        more = size_bytes - one.size_bytes
        needed, allowed = self._budget.take_working(more)
        if needed > allowed:
            raise ResourceError(
                f"not enough memory: mode='fork' needs {more} more bytes in each worker, where"
                f" members read decoded samples, {needed} in all; allowed {allowed}."
                f" A sample has up to {build.decoded_bytes} bytes: leave mode out, {REMEDY}",
                needed_bytes=needed,
                allowed_bytes=allowed,
            )
        one.size_bytes, one.usual_bytes = size_bytes, usual_bytes
        self.by_number[one.number] = one
        return one

    def add(self, fork: Fork, group: Group) -> None:
        """Add the group of a member; it begins with the others."""
        fork.groups.append(group)
        group.gate = fork.gate

    def leave(self, fork: Fork | None, group: Group | None = None) -> None:
        """Remove a group; the last one ends the fork."""
        if fork is None:
            return
        if group in fork.groups:
            fork.groups.remove(group)
        if not fork.groups and self.by_number.pop(fork.number, None) is not None:
            self._budget.take_working(-fork.size_bytes)

    def of(self, group: Group) -> Fork | None:
        """Return the fork that a group belongs to."""
        return self.by_number.get(group.record.fork) if group.record.fork else None

    def together(self, group: Group) -> list[Group]:
        """Return a group and its mates; without a fork it is alone."""
        fork = self.of(group)
        if fork is None or group.closing:
            return [group]
        return [group, *(one for one in fork.groups if one is not group and not one.closing)]

    def front(self, group: Group, member: Member) -> Place:
        """Return the farthest place that a member can reach to be in step with another one."""
        found = NOWHERE
        for mate in self.together(group)[1:]:
            for run in mate.runs:
                if not run.ended:
                    found = max(found, reach(group, member, run.place))
        return found

    def in_step(self, batch: BatchState) -> list[BatchState]:
        """Return the mates' batches at the place of a batch whose next rows are the same."""
        fork = self.of(batch.group)
        if fork is None or not fork.size_bytes or batch.ranges[0].whole:
            return []
        found = []
        for mate in self.together(batch.group)[1:]:
            for other in mate.open:
                first = other.ranges[0]
                if other.place == batch.place and first.lo == batch.ranges[0].lo:
                    found += [] if first.whole else [other]
        return found

    def most_rows(self, batches: list[BatchState]) -> int:
        """Return how many rows may be claimed of batches at once."""
        fork, limit = self.of(batches[0].group), min(b.group.stream.most_rows for b in batches)
        return limit if fork is None or len(batches) == 1 else min(limit, fork.most_rows)


def reach(group: Group, member: Member, place: Place) -> Place:
    """Return a place if a member can reach it with its slots; else one before all others."""
    share = None if member.run is None else member.run.share
    steps = member.quota * (1 if share is None else len(share.hosts))
    far = member.place < place and steps_between(group, member.place, place) > steps
    return NOWHERE if far else place
