"""Limits from the number of file descriptors: the daemon's own limit, and the sessions it allows.

libzmq aborts the process when it accepts a connection and the descriptor table is full. So the
daemon raises its soft limit to the hard limit at start, admits only as many sessions as the limit
allows, and its `AcceptLimit` closes long before the table is full. Numbers are descriptors.
"""

import os
import resource
from typing import Final

from stoker.protocol.errors import MORE_FILES, SetupError

RESERVE: Final = 32
"""The daemon keeps at least this many descriptors free."""
FLOOD: Final = 64
"""Connections that libzmq may accept before the loop has paused accepting: at least this many."""
FLOOD_SHARE: Final = 4
"""The room for them is this part of the limit, if that is more: a quarter."""
HALF_OPEN_SHARE: Final = 8
"""Connections that have not attached yet may have this part of the limit: an eighth."""
PER_SESSION: Final = 4
"""A ZeroMQ connection, a lifeline, a slab, and the map of it that a carrier sends from."""
PER_WORKER: Final = 5
"""Both ends of its socket, its pidfd, its progress page, and one that waits to be sent."""
OWN: Final = 64
"""Sockets, pipes, the template, builders, a replayer, metrics requests and files being read."""


def raise_limit() -> int:
    """Raise this process's soft limit to its hard limit; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # the hard limit may be above what the kernel allows
        return soft
    return hard


def open_count() -> int:
    """Return how many descriptors this process has open."""
    # Since Linux 6.2 the folder's size is the number of descriptors; before, it is 0.
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))


def low_water(workers: int, limit: int) -> int:
    """Return the number of free descriptors below which no connection is accepted."""
    return RESERVE + max(FLOOD, limit // FLOOD_SHARE) + PER_WORKER * workers


def half_open_limit(most: int) -> int:
    """Return how many connections may wait for Attach: `most`, or a part of the descriptors."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(1, min(most, max(FLOOD, limit // HALF_OPEN_SHARE)))


def session_limit(limit: int, workers: int) -> int:
    """Return the greatest number of sessions that a limit on descriptors allows.

    Raises:
        SetupError: the limit does not allow a single session.
    """
    fixed = OWN + PER_WORKER * workers + low_water(workers, limit)
    sessions = (limit - fixed) // PER_SESSION
    if sessions < 1:
        needed = OWN + 2 * PER_WORKER * workers + RESERVE + FLOOD + PER_SESSION
        raise SetupError(
            f"the limit on open files is {limit}, but a daemon with {workers} workers needs at"
            f" least {needed}; raise it ({MORE_FILES}), or use fewer workers",
            limit=limit,
            needed=needed,
        )
    return sessions
