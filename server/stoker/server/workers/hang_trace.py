"""Writes the stack of a worker whose chunk takes too long, before the daemon kills it.

Runs in workers. A timer runs during a chunk. If it runs out, the handler of `faulthandler` writes
the stack into the worker's progress page, from which the daemon reads it after the death. The
handler needs no interpreter, so it also works in a function that blocks or never returns. If a
user's function has a handler of its own for SIGALRM, nothing is written.
"""

import faulthandler
import mmap
import os
import signal
from typing import Final

from stoker.server.workers.child_config import PROGRAM_AT, STACK_AT

SHARE: Final = 0.8
"""Part of the deadline after which the stack is written, before the daemon kills the worker."""


class HangTrace:
    """Writes the stack of this process if a chunk takes too long; times are seconds."""

    def __init__(self, descriptor: int, page: mmap.mmap, deadline_s: float) -> None:
        """Take the progress page and its descriptor, which stays open as long as the process."""
        self._descriptor = descriptor
        self._page = page
        self._limit_s = SHARE * deadline_s

    def begin(self) -> None:
        """Begin a chunk: start the timer, forget what was written."""
        if callable(signal.getsignal(signal.SIGALRM)):
            return
        if self._page[STACK_AT]:
            self._page[STACK_AT:PROGRAM_AT] = bytes(PROGRAM_AT - STACK_AT)
        # A function may have used the signal and given it back: the handler is set once more.
        faulthandler.unregister(signal.SIGALRM)
        try:
            os.lseek(self._descriptor, STACK_AT, os.SEEK_SET)
            faulthandler.register(signal.SIGALRM, self._descriptor, all_threads=False)
        except OSError:
            return  # a function has closed the descriptor
        signal.setitimer(signal.ITIMER_REAL, self._limit_s)

    def end(self) -> None:
        """End the chunk."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)
