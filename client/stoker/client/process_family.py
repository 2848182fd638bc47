"""Processor time and memory of a process and all that it started, from /proc. Linux only."""

import contextlib
import os
from pathlib import Path
from typing import Final

_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM, _REAPED_USER, _REAPED_SYSTEM = range(11, 15)
"""Places after the name of a process in /proc/PID/stat, see proc(5)."""


def family(pid: int) -> list[int]:
    """Return a process and its descendants that live."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += [later for child in task.read_text().split() for later in family(int(child))]
    return found


def own_cpu_s(pid: int) -> float:
    """Return the CPU seconds of one process, 0 if it has ended."""
    return _ticks(pid, _USER, _SYSTEM) / _PER_SECOND


def family_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants, also those that ended."""
    every = (_USER, _SYSTEM, _REAPED_USER, _REAPED_SYSTEM)
    return sum(_ticks(one, *every) for one in family(pid)) / _PER_SECOND


def others_cpu_s(pid: int) -> float:
    """Return the CPU seconds of this host without a process and its descendants."""
    try:
        fields = [int(field) for field in Path("/proc/stat").read_text().split()[1:9]]
    except (OSError, ValueError):
        return 0.0
    busy = sum(fields) - fields[3] - fields[4]  # all but idle and waiting for storage, see proc(5)
    return busy / _PER_SECOND - family_cpu_s(pid)


def family_memory_bytes(pid: int) -> int:
    """Return the memory of a process and its descendants; what several share counts once.

    That is the sum of their PSS, to which a page counts by one part per process that maps it. It is
    0 if the system does not tell.
    """
    return sum(map(_pss_bytes, family(pid)))


def _pss_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    sizes = (line.split() for line in text.splitlines() if line.startswith("Pss:"))
    return sum(int(words[1]) * 1024 for words in sizes)


def _ticks(pid: int, *places: int) -> int:
    """Return the sum of fields of a process; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    return sum(int(fields[place]) for place in places)
