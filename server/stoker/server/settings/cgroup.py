"""The CPU time, cores and memory that this process may use, from cgroups and the kernel.

Both cgroup versions are read, and every group from the process's own up to the root, because the
tightest of them decides. If a group's folder is not visible (a container that sees only its own
subtree), the mount's root is read instead. Files that are missing or unreadable count as "no
limit". Sizes are bytes. Nothing here is cached: a limit may change while the daemon runs.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NO_LIMIT = 2**60
_ROOT = Path("/")


@dataclass(frozen=True)
class Room:
    """Memory that may still be used, and the limit that decides it."""

    size_bytes: int
    limited_by: str


def cores(root: Path = _ROOT) -> tuple[int, str]:
    """Return the number of processes that may compute at full speed, at least 1, and its reason."""
    affinity = len(os.sched_getaffinity(0))
    quota = min(_quotas(root), default=math.inf)
    if quota < affinity:
        return max(1, int(quota)), f"cgroup quota of {quota:g} cores"
    return affinity, f"affinity of {affinity} cores"


def room(root: Path = _ROOT) -> Room:
    """Return the memory that may still be used: the least of MemAvailable and every cgroup's rest.

    Page cache that the kernel can drop (inactive_file) counts as free.
    """
    found = [Room(_mem_available(root), "MemAvailable of /proc/meminfo")]
    for folder in _folders(root, ""):
        found += _rest(folder, "memory.max", "memory.current", "inactive_file")
    for folder in _folders(root, "memory"):
        found += _rest(
            folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        )
    return min(found, key=lambda rest: rest.size_bytes)


def _quotas(root: Path) -> Iterator[float]:
    for folder in _folders(root, ""):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit():
            yield int(quota) / int(period)
    for folder in _folders(root, "cpu"):
        quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit():
            yield int(quota) / int(period)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield this process's group and its parents; controller "" is version 2."""
    mount = _mount(root, controller)
    if mount is None:
        return
    folder = mount / _group(root, controller).lstrip("/")
    while folder != mount and mount in folder.parents:
        yield folder
        folder = folder.parent
    yield mount


def _group(root: Path, controller: str) -> str:
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    return "/"


def _mount(root: Path, controller: str) -> Path | None:
    for line in _read(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        wanted = kind == "cgroup2" if not controller else kind == "cgroup"
        if wanted and (not controller or controller in options.split(",")):
            return root / before.split(" ")[4].lstrip("/")
    return None


def _rest(folder: Path, limit: str, usage: str, droppable: str) -> list[Room]:
    allowed, used = _read(folder / limit), _read(folder / usage)
    if not allowed.isdigit() or not used.isdigit() or int(allowed) >= _NO_LIMIT:
        return []
    cached = 0
    for line in _read(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == droppable:
            cached = int(value)
    return [Room(max(0, int(allowed) - int(used) + cached), f"{folder / limit} = {allowed}")]


def _mem_available(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return _NO_LIMIT


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
