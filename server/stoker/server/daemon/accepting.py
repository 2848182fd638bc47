"""Accepts connections: those of the side socket and of carriers of other hosts.

Runs on the daemon's loop, which calls what `calls` has for each readable descriptor.
"""

import errno
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

from stoker.server.settings import logs

MAX_ACCEPTS: Final = 64
"""Connections that one turn of the loop accepts."""
_FULL: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


def accepted(
    listener: socket.socket,
    may_accept: Callable[[], bool],
    calls: dict[int, Callable[[], None]],
) -> Iterator[tuple[socket.socket, Any]]:
    """Yield connections that wait at a listener, with their addresses.

    If there are too few descriptors for another one, the listener is removed from `calls`, so that
    the loop does not spin. The owner puts it back later.
    """
    for _ in range(MAX_ACCEPTS):
        if not may_accept():
            del calls[listener.fileno()]
            return
        try:
            sock, address = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno not in _FULL:
                continue  # the peer went away before it was accepted
            del calls[listener.fileno()]
            logs.log("error", "accept_failed", reason=error.strerror)
            return
        sock.setblocking(False)
        yield sock, address
