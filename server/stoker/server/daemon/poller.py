"""Wait on descriptors, and measure the turns of the daemon's loop.

poll(2) keeps no state in the kernel between calls, so it is safe to close a descriptor whose number
is reused at once (epoll would forget the new one silently). A *turn* is the work of the loop
between two waits. No turn may take longer than `TURN_LIMIT_S`, because clients wait meanwhile. Both
wall time and the thread's own processor time are measured, because wall time includes the time in
which the system ran other processes. Times are seconds.
"""

import bisect
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

TURN_LIMIT_S: Final = 0.005
BUCKETS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1.0)

Calls = Mapping[int, Callable[[], None]]


class Poller:
    """Waits until one of a changing set of descriptors is readable or hung up."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._registered: set[int] = set()

    def wait(self, wanted: set[int], timeout_s: float) -> list[int]:
        """Return those of `wanted` that are readable, after at most `timeout_s`."""
        for descriptor in self._registered - wanted:
            self._poll.unregister(descriptor)
        for descriptor in wanted - self._registered:
            self._poll.register(descriptor, select.POLLIN)
        self._registered = wanted
        # Rounded up: waking a fraction of a millisecond early would spin until the deadline.
        timeout_ms = 0 if timeout_s <= 0 else int(timeout_s * 1000) + 1
        return [descriptor for descriptor, _ in self._poll.poll(timeout_ms)]


@dataclass
class TurnTimes:
    """Durations of the loop's turns.

    Attributes:
        counts: number of turns per bucket of `BUCKETS_S`, then of those beyond the last.
        total_s: sum over all turns.
        max_s: duration of the longest turn.
        max_cpu_s: most processor time that the loop's thread used in one turn.
        slow: number of turns beyond `TURN_LIMIT_S`.
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0
    max_s: float = 0.0
    max_cpu_s: float = 0.0
    slow: int = 0
    _began_s: float = 0.0
    _began_cpu_s: float = 0.0

    def begin(self) -> None:
        """Mark the start of a turn."""
        self._began_s, self._began_cpu_s = time.perf_counter(), time.thread_time()

    def elapsed_s(self) -> float:
        """Return the duration of the turn so far."""
        return time.perf_counter() - self._began_s

    def end(self) -> tuple[float, float]:
        """Mark the end of the turn; return its duration and its processor time."""
        took_s = self.elapsed_s()
        self.counts[bisect.bisect_left(BUCKETS_S, took_s)] += 1
        self.total_s += took_s
        self.max_s = max(self.max_s, took_s)
        cpu_s = time.thread_time() - self._began_cpu_s
        self.max_cpu_s = max(self.max_cpu_s, cpu_s)
        self.slow += took_s > TURN_LIMIT_S
        return took_s, cpu_s

    def copy(self) -> "TurnTimes":
        """Return a copy that later turns do not change."""
        return TurnTimes(list(self.counts), self.total_s, self.max_s, self.max_cpu_s, self.slow)
