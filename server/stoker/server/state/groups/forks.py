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
from stoker.server.state.groups.group import BatchState, Cohort, Group, Member
from stoker.server.state.groups.group_joining import MEMBERS
from stoker.server.state.groups.sharing import steps_between
from stoker.server.work.work_records import BuildResult

ROWS = 64
"""Rows of usual size for which a worker has room, if they fit into `MOST_BYTES`."""
MOST_BYTES = 2**25
"""The memory of a worker for rows of usual size; more only if one row needs it."""
NOWHERE: Place = (-1, 0)


def make_room(cohort: Cohort, asked: GroupRequest, build: BuildResult, budget: Budget) -> None:
    """Take memory for the decoded samples of one more member of a fork.

    Raises:
        ResourceError: the fork has `MEMBERS`, or the budget is not sufficient.
    """
    if len(cohort.groups) >= MEMBERS:
        raise ResourceError(
            f"group {asked.name!r} has {MEMBERS} members, the most of a fork: use another"
            " group for some of the members",
            members=MEMBERS,
        )
    usual_bytes = max(cohort.usual_bytes, build.usual_bytes)
    size_bytes = max(min(ROWS * usual_bytes, MOST_BYTES), build.decoded_bytes, cohort.size_bytes)
    more = size_bytes - cohort.size_bytes
    needed, allowed = budget.take_working(more)
    if needed > allowed:
        raise ResourceError(
            f"not enough memory: mode='fork' needs {more} more bytes in each worker, where"
            f" members read decoded samples, {needed} in all; allowed {allowed}."
            f" A sample has up to {build.decoded_bytes} bytes: leave mode out, {REMEDY}",
            needed_bytes=needed,
            allowed_bytes=allowed,
        )
    cohort.size_bytes, cohort.usual_bytes = size_bytes, usual_bytes


def give_back(cohort: Cohort, budget: Budget) -> None:
    """Give the memory for decoded samples back, if no member is left."""
    if not cohort.groups:
        budget.take_working(-cohort.size_bytes)
        cohort.size_bytes = 0


def front(group: Group, member: Member) -> Place:
    """Return the farthest place that a member can reach to be in step with another one."""
    places = (run.place for mate in group.together[1:] for run in mate.runs if not run.ended)
    return max((reach(group, member, place) for place in places), default=NOWHERE)


def in_step(batch: BatchState) -> list[BatchState]:
    """Return the mates' batches at the place of a batch whose next rows are the same."""
    if not batch.group.cohort.size_bytes or batch.ranges[0].whole:
        return []
    return [
        other
        for mate in batch.group.together[1:]
        for other in mate.open
        if other.place == batch.place
        and other.ranges[0].lo == batch.ranges[0].lo
        and not other.ranges[0].whole
    ]


def most_rows(batches: list[BatchState]) -> int:
    """Return how many rows may be claimed of batches at once."""
    limit = min(batch.group.stream.most_rows for batch in batches)
    return limit if len(batches) == 1 else min(limit, batches[0].group.cohort.most_rows)


def reach(group: Group, member: Member, place: Place) -> Place:
    """Return a place if a member can reach it with its slots; else one before all others."""
    share = None if member.run is None else member.run.share
    steps = member.quota * (1 if share is None else len(share.hosts))
    far = member.place < place and steps_between(group, member.place, place) > steps
    return NOWHERE if far else place
