"""Unexpected exceptions in the daemon's loop: each ends only what it concerns.

Runs on the daemon's loop. Handlers of messages, descriptors and instructions run in `Guard.run`. An
unexpected exception is a fault of the daemon. It is logged with its traceback and counted, and the
caller ends what the handler worked for: a connection, a child process, the session of an
instruction. Other sessions go on.

The state itself is the exception. If the core raises, a part of its change may be missing, and
batches from such a state could be wrong. So `StateInDoubtError` ends the daemon. It also ends the
daemon if the cleanup after another exception raises.
"""

import traceback
from collections.abc import Callable
from typing import Final

from stoker.protocol.errors import PeerError
from stoker.server.settings import logs
from stoker.server.workers.failpoints import FailPoints

EXIT_CODE: Final = 70
"""Exit code of a daemon whose state is in doubt: EX_SOFTWARE of sysexits.h."""


class StateInDoubtError(Exception):
    """The daemon cannot know whether its state is whole, so it must not go on."""


class Guard:
    """Runs handlers; counts and logs what they raise unexpectedly.

    Attributes:
        now: the daemon's clock, monotonic seconds.
        errors: number of unexpected exceptions.
    """

    def __init__(self, now: Callable[[], float], fail_points: str = "") -> None:
        """Take the clock and the fail points of the tests."""
        self.now = now
        self._fail = FailPoints(fail_points) if fail_points else None
        self._log_limit = logs.RateLimit(burst=5, period_s=10.0)
        self.errors = 0

    def run(self, place: str, handler: Callable[..., object], *arguments: object) -> bool:
        """Call a handler; return whether it returned.

        Args:
            place: what it handles: "message", "descriptor", "instruction", "tick".
            handler: what is called.
            arguments: of the handler.

        Raises:
            StateInDoubtError: the handler found that the daemon must not go on.
        """
        try:
            handler(*arguments)
            if self._fail is not None:
                self._fail.visit(f"daemon.{place}")
        except StateInDoubtError:
            raise
        except Exception as error:
            self.note(place, error)
            return False
        return True

    def run_vital(self, place: str, handler: Callable[..., object], *arguments: object) -> None:
        """Call a handler after whose exception the daemon must not go on.

        Raises:
            StateInDoubtError: it raised.
        """
        if not self.run(place, handler, *arguments):
            raise StateInDoubtError(place)

    def note(self, place: str, error: Exception) -> None:
        """Count and log an unexpected exception."""
        self.errors += 1
        suppressed = self._log_limit.allow(place, self.now())
        if suppressed is not None:
            text = "".join(traceback.format_exception(error)).strip()
            logs.log(
                "error", "unexpected_error", handler=place, error=type(error).__name__,
                suppressed=suppressed, traceback=text,
            )  # fmt: skip


def session_failed() -> PeerError:
    """Return the error for a client whose session the daemon ends because a handler raised."""
    return PeerError(
        "the daemon failed while it handled this session, and ended it; other sessions go on. Its"
        " log has the traceback (unexpected_error): please report it. A Loader with reconnect_s"
        " opens its stream again"
    )
