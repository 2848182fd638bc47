"""The daemon's exit: on request, or with its last client.

On the first request there are no new sessions, all sessions get BYE and end at once (announced
batches stay readable for a client that has mapped them, and it can resume elsewhere from its
cursor). Then running chunks may end, for at most `drain_s`, so that workers are not interrupted,
and Exit follows. On an urgent or a second request, BYE and Exit follow at once. A daemon with
`exit_with_last_client` exits when its last session is gone, or when none has attached for
`first_client_s`.
"""

from stoker.server.state.core_context import CoreContext
from stoker.server.state.core_instructions import Exit
from stoker.server.state.events import StopAsked
from stoker.server.state.scheduler import Scheduler
from stoker.server.state.sessions import Sessions
from stoker.server.state.workers import Pool

REASON = "the daemon shuts down"


class Stopping:
    """Decides when to exit."""

    def __init__(
        self, context: CoreContext, sessions: Sessions, scheduler: Scheduler, pool: Pool
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._scheduler = scheduler
        self._pool = pool
        self._started_at = 0.0
        self._asked_at: float | None = None
        self.exited = False

    @property
    def asked(self) -> bool:
        """True if the daemon was asked to stop."""
        return self._asked_at is not None

    def begin(self, now: float) -> None:
        """Set the time of the start."""
        self._started_at = now

    def ask(self, event: StopAsked) -> None:
        """Handle SIGTERM or SIGINT."""
        again = self.asked or event.at_once
        self._context.log("info", "stopping", at_once=again)
        self._asked_at = event.now
        self._sessions.end_all(REASON)
        self._pool.closed = True
        if again:
            self._leave()

    def check(self) -> None:
        """Exit if it is time."""
        context, settings = self._context, self._context.settings
        if self._asked_at is not None:
            waited = context.now - self._asked_at
            if not self._scheduler.claims or waited >= settings.drain_s:
                self._leave()
        elif settings.exit_with_last_client and not self._sessions.by_token:
            alone = context.now - self._started_at >= settings.first_client_s
            if self._sessions.attached_once or alone:
                self._leave()

    def _leave(self) -> None:
        if not self.exited:
            self.exited = True
            self._context.out.append(Exit(0))
