"""The limits of a daemon, and how near it is to each: the nearest first."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Limit(NamedTuple):
    """One limit.

    Attributes:
        name: what is limited.
        used: how much is used.
        limit: how much there is; positive.
        unit: "bytes", or "" for a number of things.
        raised_by: what to change if it is reached.
    """

    name: str
    used: float
    limit: float
    unit: str
    raised_by: str

    @property
    def part(self) -> float:
        """The part that is used, from 0 on."""
        return self.used / self.limit


class UsableHost(NamedTuple):
    """The part of the host that the daemon may use.

    Attributes:
        cores: processors.
        descriptors: open files.
    """

    cores: int
    descriptors: int


_COUNTED: Final = (
    ("memory for batches and pipelines", "memory_used_bytes", "memory_limit_bytes", "bytes",
     "memory.limit, smaller batches, or less prefetch="),
    ("sessions", "sessions", "sessions_limit", "", "daemon.max_sessions"),
)  # fmt: skip


def limits(
    counters: Mapping[str, float], machine: UsableHost, busy_workers: float, busy_cores: float
) -> list[Limit]:
    """Return all limits, the one that is reached first at the front.

    Args:
        counters: of the daemon.
        machine: what it may use.
        busy_workers: how many workers worked, on average over the last seconds.
        busy_cores: how many cores they used.
    """
    found = [
        Limit(name, counters[used], counters[limit], unit, raised_by)
        for name, used, limit, unit, raised_by in _COUNTED
    ]
    workers = max(counters["workers"], 1)
    found += [
        Limit("workers", busy_workers, workers, "", "workers.count, if cores are free"),
        Limit("cores, used by workers", busy_cores, machine.cores, "", "the quota, or the host"),
        Limit("descriptors", counters["descriptors"], machine.descriptors, "",
              "ulimit -n, LimitNOFILE of systemd"),
    ]  # fmt: skip
    return sorted(found, key=lambda one: -one.part)
