"""Signals as bytes in a pipe, so that the daemon's loop reads them like any other input."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Final

CAUGHT: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The first two stop the daemon; SIGHUP makes it read its configuration again."""


class StopSignals:
    """A pipe into which the interpreter writes the numbers of signals.

    Attributes:
        readable: the descriptor to wait for.
    """

    def __init__(self) -> None:
        self.readable, self._written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.readable)
        os.close(self._written)

    def stop(self) -> None:
        """Act as if SIGTERM had come; may be called in any thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._written, bytes([signal.SIGTERM]))

    def read(self) -> list[signal.Signals]:
        """Return the signals that have come."""
        numbers = os.read(self.readable, 64)
        return [signal.Signals(number) for number in numbers if number in CAUGHT]

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Catch signals; does nothing outside of the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, _ignore) for number in CAUGHT}
        wakeup = signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing: the signal's number is already in the pipe."""
