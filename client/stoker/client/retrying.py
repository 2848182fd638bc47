"""Retries with deadlines: after the loss of a daemon (an outage), and while it has no room yet.

After a restart of a daemon all of its clients come at once. It bounds how many of them it greets at
a time, and tells the others to try again. They do (`connect_with_retries`), after pauses that grow
and differ, so that they do not come at once again.
"""

import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

from stoker.protocol.errors import ConnectError, DaemonLostError, StokerError, TryAgainError

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 0.1
GROWTH: Final = 1.5
Session = TypeVar("Session")


def connect_with_retries(connect: Callable[[float], Session], timeout_s: float) -> Session:
    """Connect to a daemon; try again while it answers with TryAgainError.

    Args:
        connect: called with the seconds that are left.
        timeout_s: for how long.

    Raises:
        TryAgainError: the daemon had no room until the end.
        StokerError: as `connect`.
    """
    deadline, pause_s, left_s = time.monotonic() + timeout_s, FIRST_PAUSE_S, timeout_s
    refusal: TryAgainError | None = None
    while True:
        try:
            return connect(left_s)
        except TryAgainError as error:
            refusal, left_s = error, deadline - time.monotonic()
            if left_s <= FIRST_PAUSE_S:
                raise
        except ConnectError:
            if refusal is None or time.monotonic() < deadline:
                raise
            raise refusal from None  # the last attempt had no time
        pause_s = min(pause_s * GROWTH, LONGEST_PAUSE_S, left_s)
        time.sleep(pause_s * (0.5 + os.urandom(1)[0] / 512))
        left_s = max(deadline - time.monotonic(), FIRST_PAUSE_S)


class Outage:
    """One outage; it ends with a batch, not with a connection.

    So a daemon that dies again and again before it delivers does not hold the caller forever. It
    keeps the text of the last failure, not the exception, whose traceback would keep the memory of
    the lost daemon.
    """

    def __init__(self, error: StokerError, limit_s: float) -> None:
        """Begin with the error that showed the loss, and the time limit of `reconnect_s`."""
        self._limit_s = limit_s
        self.failed(error)
        self.begin()

    def begin(self) -> None:
        """Begin once more, because the caller asks again after the end."""
        self._attempts = 0
        self._pause_s = FIRST_PAUSE_S
        self._began = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the loss."""
        return time.monotonic() - self._began

    @property
    def left_s(self) -> float:
        """Seconds that are left for an attempt; a little at least."""
        return max(self._limit_s - self.elapsed_s, FIRST_PAUSE_S)

    @property
    def over(self) -> bool:
        """True if the time is up and was used for an attempt at least."""
        return self._attempts > 0 and self.elapsed_s >= self._limit_s

    def failed(self, error: StokerError) -> None:
        """Note why an attempt failed."""
        self._last = f"{type(error).__name__}: {error.message}"

    def begin_attempt(self) -> bool:
        """Wait until it is time for the next attempt; the first one is due at once.

        Returns:
            Whether there is time for one.
        """
        if self._attempts and not self.over:
            time.sleep(min(self._pause_s, self.left_s))
            self._pause_s = min(self._pause_s * GROWTH, LONGEST_PAUSE_S)
        if self.over:
            return False
        self._attempts += 1
        return True

    def error(self, where: str) -> DaemonLostError:
        """Return the error that ends the outage: how long the client tried, what failed last.

        Args:
            where: the daemon, in words.
        """
        return DaemonLostError(
            f"{where} was lost, and gave no batch in {self.elapsed_s:.1f} s, in which the client "
            f"tried {self._attempts} times to open the stream again (reconnect_s="
            f"{self._limit_s:g}). Batches already handed out stay valid. Start the daemon and take "
            "the next batch, for which the loader tries again; or make a new Loader and give it "
            "the last state_dict(). Both continue with the same bytes. The last failure was "
            f"{self._last}",
            attempts=self._attempts,
            tried_ms=int(self.elapsed_s * 1000),
        )
