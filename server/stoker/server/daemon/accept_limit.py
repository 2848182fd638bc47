"""Stops accepting connections while file descriptors run low.

Runs on the daemon's loop. A pause takes the ZeroMQ socket out of the folder, so that new
connections fail until the pause ends (ZeroMQ's clients try again by themselves), and stops
accepting on the side socket and the TCP address, whose clients wait in the kernel's queue. Open
sessions are not affected. libzmq accepts in its own thread, so it may accept a few more connections
until the loop begins the pause; a quarter of the limit is reserved for them.

Invariant: after `check`, connections are accepted only if at least `low_water` descriptors are
free.
"""

import resource
from collections.abc import Callable

from stoker.server.daemon.descriptor_limits import low_water, open_count
from stoker.server.daemon.remote.tcp_listener import TcpListener
from stoker.server.daemon.socket_folder import SocketFolder
from stoker.server.settings import logs

STEP = 8
"""Accepting resumes when this many more descriptors are free, so that it does not flap."""


class AcceptLimit:
    """Accepts connections while enough descriptors are free.

    Attributes:
        is_accepting: whether connections are accepted.
        pauses: how often accepting was paused.
    """

    def __init__(
        self,
        place: SocketFolder,
        workers: int,
        now: Callable[[], float],
        count: Callable[[], int] = open_count,
        tcp: TcpListener | None = None,
    ) -> None:
        self._place = place
        self._tcp = tcp
        self._count = count
        self._now = now
        self._workers = workers
        self._log_limit = logs.RateLimit(burst=5, period_s=10.0)
        self.is_accepting = True
        self.pauses = 0

    def check(self) -> bool:
        """Pause or resume accepting if it is time; return whether connections are accepted."""
        limit, used = resource.getrlimit(resource.RLIMIT_NOFILE)[0], self._count()
        free = limit - used
        low = low_water(self._workers, limit)
        if self.is_accepting and free < low:
            self._place.hide()
            if self._tcp is not None:
                self._tcp.hide()
            self.is_accepting = False
            self.pauses += 1
            self._note("warning", "accept_paused", used, limit)
        elif not self.is_accepting and free >= low + STEP:
            self._place.show()
            if self._tcp is not None:
                self._tcp.show()
            self.is_accepting = True
            self._note("info", "accept_resumed", used, limit)
        return self.is_accepting

    def _note(self, level: str, event: str, used: int, limit: int) -> None:
        suppressed = self._log_limit.allow("accept", self._now())
        if suppressed is not None:
            facts = {"descriptors": used, "limit": limit, "suppressed": suppressed}
            logs.write(level, event, facts)
