"""What work costs a process, without what it waited for a processor.

On a busy host a chunk takes several times as long by the clock, and chunks sized by that would be
cut finer and finer, which makes the host busier still. Waiting for storage counts: it is part of
what a row costs. For processes with one thread. Times are seconds.
"""

import os
import time


class ComputeTimer:
    """Measures the process that makes it; belongs to the worker that closes with its process."""

    def __init__(self, path: str = "/proc/self/schedstat") -> None:
        """Open the kernel's account of this process; where there is none, all time counts."""
        try:
            self._account: int | None = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._account = None

    def read(self) -> float:
        """Return the time so far, but for that in which a processor was waited for."""
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
