"""Decides the answer of `/readyz`: new clients are welcome or not. Runs on the daemon's loop.

Times are seconds.
"""

from collections.abc import Callable, Mapping
from typing import Final

from stoker.server.daemon.accept_limit import AcceptLimit
from stoker.server.daemon.processes import Processes

UNREADY_S: Final = 5.0
"""A daemon that had no worker for this time is not ready, unless it starts or replaces some."""


class Readiness:
    """Asks all that could refuse a client, or let it wait in vain."""

    def __init__(
        self, accept_limit: AcceptLimit, processes: Processes, now: Callable[[], float]
    ) -> None:
        self._accept_limit, self._processes, self._now = accept_limit, processes, now
        self._worked_at = now()

    def unready(self, stopping: bool, counters: Mapping[str, int | float]) -> str:
        """Return why a new client is not welcome; empty: it is.

        Args:
            stopping: whether a stop was asked for.
            counters: those of the core.
        """
        now = self._now()
        if counters["workers_up"]:
            self._worked_at = now
        idle_s = now - self._worked_at
        reasons = (
            (stopping, "shutting down"),
            (
                counters["sessions"] >= counters["sessions_limit"],
                f"all {counters['sessions_limit']} sessions are taken",
            ),
            (not self._accept_limit.is_accepting, "too few descriptors are free"),
            (bool(why := self._processes.unready()), why),
            (idle_s > UNREADY_S, f"no worker has been up for {idle_s:.0f} s"),
        )
        return next((text for holds, text in reasons if holds), "")
