"""Measures the time that a process works, without its waiting for a processor.

On a busy host a chunk takes several times as long by the clock. Chunks that are sized by the clock
would become ever smaller, which makes the host busier still. Waiting for storage counts, because it
is part of the cost of a row. For processes with one thread. Times are seconds.
"""

import os
import time


class ComputeTimer:
    """Measures the process that creates it."""

    def __init__(self, path: str = "/proc/self/schedstat") -> None:
        """Open the kernel's account of this process; if it has no account, all time counts."""
        try:
            self._account: int | None = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._account = None

    def read(self) -> float:
        """Return the elapsed time without the time spent waiting for a processor."""
        return time.perf_counter() - self._waited_s()

    def close(self) -> None:
        """Close the account; all time counts from now on."""
        if self._account is not None:
            os.close(self._account)
            self._account = None

    def _waited_s(self) -> float:
        if self._account is None:
            return 0.0
        fields = os.pread(self._account, 128, 0).split()
        return int(fields[1]) / 1e9 if len(fields) > 1 else 0.0
