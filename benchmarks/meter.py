"""CPU time of a process tree, and of the rest of the machine, from /proc."""

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")


def busy_s() -> float:
    """Return the CPU seconds that the whole machine has used (user, nice, system, interrupts)."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:8]]
    return (fields[0] + fields[1] + fields[2] + fields[5] + fields[6]) / TICKS


def tree_s(root: int) -> float:
    """Return the CPU seconds of a process, its living descendants, and its reaped children."""
    stats = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                text = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            stats[int(name)] = text.rpartition(")")[2].split()
    total, todo = 0, [root]
    while todo:
        pid = todo.pop()
        fields = stats.get(pid)
        if fields:
            total += sum(int(field) for field in fields[11:15])
        todo += [child for child, other in stats.items() if int(other[1]) == pid]
    return total / TICKS


@dataclass
class Epoch:
    """One epoch as the consumer saw it; times in seconds.

    `images_per_s` counts from the call of `iter` to the arrival of the last batch. `other_cpu_s` is
    the CPU time of the rest of the machine meanwhile; if it is large, the epoch is noise.
    """

    images: int
    seconds: float
    images_per_s: float
    first_batch_s: float
    cpu_s: float
    other_cpu_s: float

    def to_data(self) -> dict[str, float]:
        return asdict(self)


def measure(batches: Callable[[], Iterable[Any]]) -> Epoch:
    """Consume one epoch of image batches and sum one element of each image."""
    own, all_ = tree_s(os.getpid()), busy_s()
    begun = time.perf_counter()
    first, last, images = 0.0, 0.0, 0
    for batch in batches():
        float(batch[(slice(None), *(0,) * (batch.ndim - 1))].sum())
        last = time.perf_counter() - begun
        first = first or last
        images += len(batch)
    cpu = tree_s(os.getpid()) - own
    other = max(0.0, busy_s() - all_ - cpu)
    return Epoch(images, last, images / last, first, cpu, other)
