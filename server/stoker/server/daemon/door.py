"""The door: no connection is accepted while few descriptors are left.

Runs on the daemon's loop. Closing the door takes the ZeroMQ socket out of the folder, so that new
connections fail until the door opens again (ZeroMQ's clients try again by themselves), and stops
accepting on the side socket and the TCP address, whose clients wait in the kernel's queue. Sessions
that are open are not affected. libzmq accepts in its own thread, so it may accept a few more
connections until the loop closes the door; a quarter of the limit is the room for these.

Invariant: after `check` the door is open only if at least `low_water` descriptors are free.
"""

import resource
from collections.abc import Callable

from stoker.server.daemon.address import SocketFolder
from stoker.server.daemon.descriptors import low_water, open_count
from stoker.server.daemon.remote.place import TcpPlace
from stoker.server.settings import logs

STEP = 8
"""The door opens again when this many more descriptors are free, so that it does not flutter."""


class Door:
    """Lets connections in while enough descriptors are free.

    Attributes:
        is_open: whether connections are accepted.
        closings: how often it was closed.
    """

    def __init__(
        self,
        place: SocketFolder,
        workers: int,
        now: Callable[[], float],
        count: Callable[[], int] = open_count,
        tcp: TcpPlace | None = None,
    ) -> None:
        self._place = place
        self._tcp = tcp
        self._count = count
        self._now = now
        self._workers = workers
        self._log_limit = logs.RateLimit(burst=5, period_s=10.0)
        self.is_open = True
        self.closings = 0

    def check(self) -> bool:
        """Open or close the door if it is time; return whether it is open."""
        limit, used = resource.getrlimit(resource.RLIMIT_NOFILE)[0], self._count()
        free = limit - used
        low = low_water(self._workers, limit)
        if self.is_open and free < low:
            self._place.hide()
            if self._tcp is not None:
                self._tcp.hide()
            self.is_open = False
            self.closings += 1
            self._note("warning", "accept_paused", used, limit)
        elif not self.is_open and free >= low + STEP:
            self._place.show()
            if self._tcp is not None:
                self._tcp.show()
            self.is_open = True
            self._note("info", "accept_resumed", used, limit)
        return self.is_open

    def _note(self, level: str, event: str, used: int, limit: int) -> None:
        suppressed = self._log_limit.allow("door", self._now())
        if suppressed is not None:
            facts = {"descriptors": used, "limit": limit, "suppressed": suppressed}
            logs.write(level, event, facts)
