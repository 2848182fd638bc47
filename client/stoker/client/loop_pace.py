"""Measures how much of a loop waits for its batches: a clock at both ends of each raw `next()`.

The first batch of an epoch is left out, because its wait is that of a start. One thread. Seconds.
"""

import time
from collections.abc import Callable


class LoopPace:
    """The loop over one epoch.

    Attributes:
        batches: batches of it, without the first one.
        rows: their rows.
        loop_s: from the first batch to the newest one.
        next_s: of that, inside of `next()`.
        waited_s: of that, waiting for batches that had not arrived; see `measure`.
    """

    def __init__(self, wait_s: Callable[[], float]) -> None:
        """Begin an epoch; `wait_s` returns what the loader has waited for batches in all."""
        self.batches = self.rows = 0
        self.loop_s = self.next_s = self.waited_s = 0.0
        self._wait_s = wait_s
        self._first_s: float | None = None
        self._before_s = self._called_s = 0.0

    def called(self) -> None:
        """`next()` was called."""
        self._called_s = time.perf_counter()

    def returns(self, rows: int) -> None:
        """`next()` returns a batch of that many rows."""
        now = time.perf_counter()
        if self._first_s is None:
            self._first_s, self._before_s = now, self._wait_s()
            return
        self.batches += 1
        self.rows += rows
        self.loop_s = now - self._first_s
        self.next_s += now - self._called_s

    def measure(self) -> None:
        """Find out what the loop has waited until now."""
        if self._first_s is not None:
            self.waited_s = self._wait_s() - self._before_s
