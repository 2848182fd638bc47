"""The ZeroMQ connections: which ones are not sessions, and for how long.

Runs on the daemon's loop. libzmq reports each accepted and each closed connection, with its
descriptor, through a monitor socket; this wakes the loop, so the door can be closed in time. A
connection that is not a session's for `SILENCE_S` is shut down: it sent no HELLO, was refused, or
its session has ended. libzmq then closes it.

The descriptors belong to libzmq. A number may be reused, so the connection's inode is compared
before it is shut down.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

import zmq

SILENCE_S: Final = 10.0
_MAX_EVENTS: Final = 2048  # libzmq waits once it has reported half as many
_EVENTS: Final = int(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
_ACCEPTED: Final = int(zmq.EVENT_ACCEPTED)
_REPORT: Final = struct.Struct("=Hi")  # event, descriptor; the endpoint is a second frame
_QUERY, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)


class Connections:
    """The connections of a bound socket.

    Args of the constructor:
        watched: the socket; it is not bound yet.
        now: monotonic seconds.

    Attributes:
        behind: whether reports may wait that wake nobody any more, so `drain` must be called.
    """

    def __init__(self, watched: "zmq.Socket[bytes]", now: Callable[[], float]) -> None:
        self._watched = watched
        self._now = now
        self.behind = True
        self._inodes: dict[int, int] = {}
        self._idle: dict[int, tuple[float, int]] = {}
        self._monitor: Any = watched.get_monitor_socket(_EVENTS)
        self._descriptor = int(self._monitor.get(zmq.FD))

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._inodes)

    def fileno(self) -> int:
        """Return a descriptor that is readable when reports came after the last `drain`."""
        return self._descriptor

    def drain(self) -> None:
        """Read the waiting reports, a bounded number of them; see `behind`."""
        for _ in range(_MAX_EVENTS):
            # This query makes the descriptor unreadable until something new arrives.
            self.behind = bool(int(self._monitor.get(_QUERY)) & _POLLIN)
            if not self.behind:
                return
            # `zmq.utils.monitor` would import asyncio: a tenth of the imports of a daemon.
            event, descriptor = _REPORT.unpack(self._monitor.recv_multipart(zmq.NOBLOCK)[0])
            if event == _ACCEPTED:
                self._accepted(descriptor)
            else:
                self._inodes.pop(descriptor, None)
                self._idle.pop(descriptor, None)

    def is_session(self, descriptor: int) -> None:
        """Note that a connection is a session's from now on."""
        self.drain()  # the report that it was accepted came before its first message
        self._idle.pop(descriptor, None)

    def is_idle(self, descriptor: int) -> None:
        """Note that a connection is not a session's from now on."""
        inode = self._inodes.get(descriptor)
        if inode is not None:
            self._idle[descriptor] = self._now(), inode

    def tick(self) -> None:
        """Shut down the connections that have been idle for too long."""
        late = self._now() - SILENCE_S
        for descriptor, (since, inode) in list(self._idle.items()):
            if since <= late:
                del self._idle[descriptor]
                with contextlib.suppress(OSError):
                    if os.fstat(descriptor).st_ino == inode:
                        _shut_down(descriptor)

    def _accepted(self, descriptor: int) -> None:
        with contextlib.suppress(OSError):  # it is closed already
            self._inodes[descriptor] = os.fstat(descriptor).st_ino
            self.is_idle(descriptor)

    def close(self) -> None:
        """Stop watching."""
        self._watched.disable_monitor()
        self._monitor.close(linger=0)


def _shut_down(descriptor: int) -> None:
    sock = socket.socket(fileno=os.dup(descriptor))
    with sock:
        sock.shutdown(socket.SHUT_RDWR)
