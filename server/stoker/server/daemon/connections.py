"""Finds ZeroMQ connections that are not sessions, and closes them after a while.

Runs on the daemon's loop. libzmq reports each accepted and each closed connection, with its
descriptor, through a monitor socket; this wakes the loop, so that accepting can be paused in time.
A connection that is not a session's for `SILENCE_S` is shut down: it sent no HELLO, was refused, or
its session has ended. libzmq then closes it. `PendingConnections` limits those from other hosts.

The descriptors belong to libzmq, and their numbers are reused. So callers hold a `ZmqConnection`,
never a number; one that is closed stays closed. The socket's inode is compared before a connection
is shut down, because libzmq may close it at any time.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

import zmq

from stoker.server.daemon.descriptor_limits import half_open_limit
from stoker.server.daemon.pending_connections import MOST, PendingConnections

SILENCE_S: Final = 10.0
_MAX_EVENTS: Final = 2048  # libzmq waits once it has reported half as many
_EVENTS: Final = int(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
_ACCEPTED: Final = int(zmq.EVENT_ACCEPTED)
_REPORT: Final = struct.Struct("=Hi")  # event, descriptor; the endpoint is a second frame
_QUERY, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)


class ZmqConnection:
    """A connection that libzmq accepted.

    Attributes:
        descriptor: its number, while libzmq has it open.
        idle_since: since when it is not a session's; None: it is.
        claims: how many peers said HELLO with this descriptor; see `Connections.claim`.
    """

    def __init__(self, descriptor: int, inode: int, since: float) -> None:
        self.descriptor = descriptor
        self.idle_since: float | None = since
        self.claims = 0
        self._inode = inode

    def shut_down(self) -> None:
        """Make libzmq close it."""
        with contextlib.suppress(OSError), _own(self.descriptor) as sock:  # libzmq was faster
            if os.fstat(sock.fileno()).st_ino == self._inode:
                sock.shutdown(socket.SHUT_RDWR)


class Connections:
    """The connections of a bound socket.

    Args of the constructor:
        watched: the socket; it is not bound yet.
        now: monotonic seconds.

    Attributes:
        behind: whether reports may wait that no longer wake the loop, so `drain` must be called.
    """

    def __init__(self, watched: "zmq.Socket[bytes]", now: Callable[[], float]) -> None:
        self._watched = watched
        self._now = now
        self.behind = True
        self._open: dict[int, ZmqConnection] = {}
        self._idle: dict[ZmqConnection, None] = {}
        self._waiting: PendingConnections[ZmqConnection] = PendingConnections(half_open_limit(MOST))
        self._monitor: Any = watched.get_monitor_socket(_EVENTS)
        self._descriptor = int(self._monitor.get(zmq.FD))

    def __len__(self) -> int:
        """Return the number of connections."""
        return len(self._open)

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
            self._closed(descriptor)
            if event == _ACCEPTED:
                self._accepted(descriptor)

    def claim(self, descriptor: int) -> ZmqConnection | None:
        """Return the connection whose HELLO was just read, by the descriptor that it had.

        The report that it was accepted comes before its HELLO. But it may be closed by now, and
        another one may have the descriptor. Then two HELLOs claim the same connection. Its owner
        is not known, so the end of neither session makes it idle.
        """
        self.drain()
        connection = self._open.get(descriptor)
        if connection is not None:
            connection.claims += 1
        return connection

    def is_session(self, connection: ZmqConnection | None) -> None:
        """Note that a connection is a session's from now on."""
        if connection is not None:
            connection.idle_since = None
            self._waiting.discard(connection)
            self._idle.pop(connection, None)

    def is_idle(self, connection: ZmqConnection | None) -> None:
        """Note that the session of a connection has ended."""
        if connection is None or connection.claims > 1:
            return
        if self._open.get(connection.descriptor) is connection:
            connection.idle_since = self._now()
            self._idle[connection] = None

    def tick(self) -> None:
        """Shut down the connections that have been idle for too long."""
        late = self._now() - SILENCE_S
        for connection in list(self._idle):
            if connection.idle_since is not None and connection.idle_since <= late:
                del self._idle[connection]
                connection.shut_down()

    def _accepted(self, descriptor: int) -> None:
        with contextlib.suppress(OSError):  # it is closed already
            inode, host = _inode_and_address(descriptor)
            connection = ZmqConnection(descriptor, inode, self._now())
            self._open[descriptor] = connection
            self._idle[connection] = None
            if host:
                crowded = self._waiting.add(connection, host)
                if crowded is not None:
                    self._idle.pop(crowded, None)
                    crowded.shut_down()

    def _closed(self, descriptor: int) -> None:
        connection = self._open.pop(descriptor, None)
        if connection is not None:
            self._waiting.discard(connection)
            self._idle.pop(connection, None)

    def close(self) -> None:
        """Stop watching."""
        self._watched.disable_monitor()
        self._monitor.close(linger=0)


@contextlib.contextmanager
def _own(descriptor: int) -> Iterator[socket.socket]:
    """Duplicate a descriptor of libzmq, which may be closed and reused meanwhile.

    Raises:
        OSError: it is closed, or is not a socket.
    """
    number = os.dup(descriptor)
    try:
        sock = socket.socket(fileno=number)
    except OSError:
        os.close(number)
        raise
    with sock:
        yield sock


def _inode_and_address(descriptor: int) -> tuple[int, str]:
    """Return the inode of a connection, and the other host's address; empty for this host.

    Raises:
        OSError: it is closed, or its other side is gone.
    """
    with _own(descriptor) as sock:
        host = "" if sock.family == socket.AF_UNIX else str(sock.getpeername()[0])
        return os.fstat(sock.fileno()).st_ino, host
