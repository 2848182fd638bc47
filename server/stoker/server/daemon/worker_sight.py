"""What the daemon sees of a worker from outside: its stage, since when, and its processor time.

It looks at each tick and whenever STATUS is asked for. So "since when" is as fine as the ticks, a
quarter of a second. Looking costs some microseconds and disturbs no worker.
"""

import collections
import time
from collections.abc import Callable
from typing import Final

from stoker.server.state.worker_status import Seen
from stoker.server.workers.stage_page import Doing, StageReader

WINDOW_S: Final = 1.0
"""Processor time is that of about the last second."""
_PROCESS_CLOCK: Final = 2
"""CPUCLOCK_SCHED: in the id of a clock, that it counts the processor time of a process."""


class WorkerSight:
    """Looks at one worker.

    Attributes:
        pid: its process; 0: not known yet.
    """

    def __init__(self, reader: StageReader, cpu_of: Callable[[int], float | None]) -> None:
        self.pid = 0
        self._reader = reader
        self._cpu_of = cpu_of
        self._doing = Doing()
        self._since: float | None = None
        self._spent: collections.deque[tuple[float, float]] = collections.deque()

    def look(self, now: float) -> Seen:
        """Return what the worker does; `now` is monotonic seconds."""
        doing = self._reader.read()
        if self._since is None or doing != self._doing:
            self._doing, self._since = doing, now
        return Seen(
            pid=self.pid, state=doing.state, op=doing.op, claim=doing.claim, row=doing.row,
            sample=doing.sample, since=self._since, cpu=self._cores(now),
        )  # fmt: skip

    def _cores(self, now: float) -> float:
        """Return how many cores it used since the last look that is a second old."""
        spent_s = self._cpu_of(self.pid) if self.pid else None
        if spent_s is None:
            return 0.0
        spent = self._spent
        spent.append((now, spent_s))
        while len(spent) > 2 and spent[1][0] <= now - WINDOW_S:
            spent.popleft()
        passed_s = now - spent[0][0]
        return (spent_s - spent[0][1]) / passed_s if passed_s > 0 else 0.0


def processor_time(pid: int) -> float | None:
    """Return the seconds of processor time of a process, with all its threads; None: it is gone."""
    try:
        return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)
    except OSError:
        return None
