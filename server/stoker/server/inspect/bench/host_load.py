"""Processor time that other processes use during a measurement."""

import os
from pathlib import Path


def busy_cpu_s() -> float:
    """Return the CPU seconds that this host's processors were not idle; 0 if that is not known.

    It includes the time that a hypervisor gave to other machines.
    """
    try:
        line = Path("/proc/stat").read_text().partition("\n")[0]
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, line.split()[1:9])
    except (OSError, ValueError):
        return 0.0
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def waited_cpu_s() -> float:
    """Return the seconds that this thread waited for a processor; 0 if that is not known."""
    try:
        fields = Path("/proc/thread-self/schedstat").read_text().split()
        return int(fields[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
