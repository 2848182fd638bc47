"""The side socket: lifelines of sessions, and the channel that passes slabs to clients.

Runs on the daemon's loop and never waits. A connection is *half-open* until its first packet, which
must be Attach with an unused token from WELCOME. Then it is that session's *lifeline*: the session
lives exactly as long as it. Anything else ends the connection: a user other than the daemon's own,
root or a member of the socket group (queried from the kernel, SO_PEERCRED and SO_PEERGROUPS), a
wrong packet, silence beyond `ATTACH_DEADLINE_S`. There are at most `MAX_HALF_OPEN` half-open
connections; a new one replaces the oldest one of the process that has most of them, so idle ones
cannot lock anyone out. A client whose lifeline's buffer is full, because it does not read, is
dropped.
"""

import contextlib
import errno
import functools
import os
import socket
import struct
from collections import Counter
from collections.abc import Callable
from typing import Final

from stoker.protocol import codec, messages
from stoker.protocol.descriptors import peer_credentials, receive_packet, send_packet
from stoker.protocol.errors import (
    ProtocolError,
    ResourceError,
    StokerError,
    TryAgainError,
    UsageError,
)
from stoker.server.daemon.accepting import accepted
from stoker.server.daemon.descriptor_limits import half_open_limit
from stoker.server.daemon.socket_folder import SIDE_SUFFIX, SocketFolder
from stoker.server.settings import logs

ATTACH_DEADLINE_S: Final = 10.0
MAX_HALF_OPEN: Final = 512
"""Fewer if few descriptors are allowed, see `descriptor_limits.half_open_limit`."""
MAX_HUNG_UP: Final = 64
"""Lost sessions whose client may be alive; the clients of more are not notified of the end."""
_SO_PEERGROUPS = 59
_MAX_GROUPS = 256  # the most that Python's getsockopt can fetch


class SideSocket:
    """Listener, half-open connections and lifelines.

    Args of the constructor:
        place: where to bind; it owns the socket's file.
        on_up, on_down: called with a token when its lifeline opened, or closed from outside.
        now: monotonic seconds.
        may_accept: whether there are enough descriptors for another connection.
    """

    def __init__(
        self,
        place: SocketFolder,
        on_up: Callable[[bytes], None],
        on_down: Callable[[bytes], None],
        now: Callable[[], float],
        may_accept: Callable[[], bool],
    ) -> None:
        self._on_up = on_up
        self._on_down = on_down
        self._now = now
        self._may_accept = may_accept
        self._group = place.group
        self._most = half_open_limit(MAX_HALF_OPEN)
        self._expected: set[bytes] = set()
        self._half_open: dict[socket.socket, tuple[float, int]] = {}
        self._lifelines: dict[bytes, socket.socket] = {}
        self._ending: list[socket.socket] = []
        self._hung_up: dict[bytes, socket.socket] = {}
        self._calls: dict[int, Callable[[], None]] = {}
        self._log_limit = logs.RateLimit(burst=5, period_s=10.0)
        self.refused_connections = 0
        self._listener = place.listen(SIDE_SUFFIX, socket.SOCK_SEQPACKET)
        self._calls[self._listener.fileno()] = self._accept

    def descriptors(self) -> dict[int, Callable[[], None]]:
        """Return the open descriptors and what to call when one is readable."""
        return self._calls

    def expect(self, token: bytes) -> None:
        """Accept that token once."""
        self._expected.add(token)

    def revoke(self, token: bytes) -> None:
        """Void the token, because it was used elsewhere."""
        self._expected.discard(token)

    def send_memory(
        self, token: bytes, record: messages.Slab | messages.Replayed, descriptor: int
    ) -> bool:
        """Pass memory to a session; False if its lifeline is down or the client does not read."""
        sock = self._lifelines.get(token)
        return sock is not None and _sent(sock, record, descriptor)

    def refuse(self, token: bytes, error: StokerError) -> bool:
        """Send an error as the last packet of a lifeline; False if it is down or not read.

        Over ZeroMQ, the end of the lifeline could overtake the error.
        """
        sock = self._lifelines.get(token)
        return sock is not None and _sent(sock, messages.Error(0, *error.to_record()))

    def forget(self, token: bytes) -> None:
        """Void the token and close its lifeline, if any."""
        self._expected.discard(token)
        sock = self._lifelines.pop(token, None)
        if sock is not None:
            self._close(sock)

    def hang_up(self, token: bytes) -> None:
        """Void the token, and tell its client; the client's end of the lifeline is still watched.

        So the core learns when a client is dead that was only lost before: its slots are free then.
        """
        self._expected.discard(token)
        sock = self._lifelines.pop(token, None)
        if sock is None:
            return
        if len(self._hung_up) >= MAX_HUNG_UP:
            self._close(sock)
            return
        with contextlib.suppress(OSError):  # the client has closed its end
            sock.shutdown(socket.SHUT_WR)
        self._hung_up[token] = sock
        self._calls[sock.fileno()] = functools.partial(self._ended, token)

    def end(self, token: bytes) -> None:
        """Void the token, and close its lifeline at the next tick.

        The last records for that session go through ZeroMQ, so they arrive before the end of file.
        """
        self._expected.discard(token)
        sock = self._lifelines.pop(token, None)
        if sock is not None:
            del self._calls[sock.fileno()]
            self._ending.append(sock)

    def abandon(self, descriptor: int) -> bool:
        """Close the connection with that descriptor, in any state.

        Returns:
            Whether it is one of this socket's.
        """
        if descriptor not in self._calls:
            return False
        if descriptor == self._listener.fileno():
            return True
        for sock in self._half_open:
            if sock.fileno() == descriptor:
                self._drop(sock)
                return True
        for token, sock in (*self._lifelines.items(), *self._hung_up.items()):
            if sock.fileno() == descriptor:
                self._hung_up.pop(token, None)
                self._lifelines.pop(token, None)
                self._close(sock)
                self._on_down(token)
                return True
        del self._calls[descriptor]  # with the last reference to the socket
        return True

    def tick(self) -> None:
        """Close ended lifelines, drop late half-open connections, resume accepting."""
        for sock in self._ending:
            sock.close()
        self._ending.clear()
        self._calls[self._listener.fileno()] = self._accept
        late = self._now() - ATTACH_DEADLINE_S
        for sock in [sock for sock, (since, _) in self._half_open.items() if since <= late]:
            self._refuse(
                sock,
                TryAgainError(
                    f"expected Attach with a token within {ATTACH_DEADLINE_S:g} s of connecting;"
                    " connect again"
                ),
            )

    def close(self) -> None:
        """Close the listener, every half-open connection and every lifeline."""
        for sock in [
            self._listener,
            *self._half_open,
            *self._lifelines.values(),
            *self._ending,
            *self._hung_up.values(),
        ]:
            sock.close()
        self._half_open.clear()
        self._lifelines.clear()
        self._calls.clear()

    def _accept(self) -> None:
        for sock, _ in accepted(self._listener, self._may_accept, self._calls):
            if len(self._half_open) >= self._most:
                self._refuse(self._most_idle(), too_many_half_open(self._most))
            self._half_open[sock] = self._now(), peer_credentials(sock)[0]
            self._calls[sock.fileno()] = functools.partial(self._attach, sock)
            self._attach(sock)

    def _most_idle(self) -> socket.socket:
        """Return the oldest half-open connection of the process that has most of them."""
        counts = Counter(process for _, process in self._half_open.values())
        most = max(counts.values())
        return next(s for s, (_, process) in self._half_open.items() if counts[process] == most)

    def _attach(self, sock: socket.socket) -> None:
        if sock not in self._half_open:  # dropped earlier in this turn of the loop
            return
        try:
            _check_user(sock, self._group)
            token = self._read_attach(sock)
        except BlockingIOError:
            return
        except OSError:
            self._drop(sock)
            return
        except StokerError as error:
            self._refuse(sock, error)
            return
        if token is None:
            self._drop(sock)
            return
        del self._half_open[sock]
        self._lifelines[token] = sock
        self._calls[sock.fileno()] = functools.partial(self._read_lifeline, token)
        self._on_up(token)
        if not _sent(sock, messages.Attached()):
            self._lose(token)

    def _read_attach(self, sock: socket.socket) -> bytes | None:
        """Return the token, None at end of file."""
        data, descriptor = receive_packet(sock)
        if descriptor is not None:
            os.close(descriptor)
            raise ProtocolError("expected no descriptor from a client")
        if not data:
            return None
        record = codec.decode_packet(data)
        if not isinstance(record, messages.Attach):
            raise ProtocolError(f"expected Attach, got {type(record).__name__}")
        if record.token not in self._expected:
            raise TryAgainError(
                "this token belongs to no session, or was used before; connect again with HELLO"
            )
        self._expected.discard(record.token)
        return record.token

    def _read_lifeline(self, token: bytes) -> None:
        """Read a lifeline: end of file ends the session; anything else breaks the protocol."""
        sock = self._lifelines.get(token)
        if sock is None:  # forgotten earlier in this turn of the loop
            return
        data = _received(sock)
        if data is None:
            return
        if data:
            self._note("a client sent data on its lifeline after Attach")
        self._lose(token)

    def _ended(self, token: bytes) -> None:
        """Read a lifeline that was hung up: its end means that the client is dead or done."""
        sock = self._hung_up.get(token)
        if sock is not None and _received(sock) == b"":
            self._close(self._hung_up.pop(token))
            self._on_down(token)

    def _lose(self, token: bytes) -> None:
        self.forget(token)
        self._on_down(token)

    def _refuse(self, sock: socket.socket, error: StokerError) -> None:
        process, user, _ = peer_credentials(sock)
        self._note(error.message, pid=process, user=user)
        code, message, details = error.to_record()
        _sent(sock, messages.Error(0, code, message, details))
        self._drop(sock)

    def _note(self, reason: str, **facts: object) -> None:
        self.refused_connections += 1
        suppressed = self._log_limit.allow("connection", self._now())
        if suppressed is not None:
            logs.log("warning", "connection_refused", **facts, reason=reason, suppressed=suppressed)

    def _drop(self, sock: socket.socket) -> None:
        del self._half_open[sock]
        self._close(sock)

    def _close(self, sock: socket.socket) -> None:
        del self._calls[sock.fileno()]
        sock.close()


def too_many_half_open(most: int) -> TryAgainError:
    """Return the error for a connection whose place another one takes."""
    return TryAgainError(
        f"more than {most} connections are waiting for Attach; connect again after a moment"
    )


def _received(sock: socket.socket) -> bytes | None:
    """Return what has come on a lifeline: b"" at its end, None if nothing has come yet."""
    try:
        data, descriptor = receive_packet(sock)
    except BlockingIOError:
        return None
    except (OSError, ProtocolError, ResourceError):
        return b""
    if descriptor is not None:
        os.close(descriptor)
    return data


def _sent(sock: socket.socket, record: messages.Record, descriptor: int | None = None) -> bool:
    try:
        send_packet(sock, codec.encode_packet(record), descriptor)
    except OSError:
        return False
    return True


def _check_user(sock: socket.socket, group: int | None) -> None:
    _, user, primary = peer_credentials(sock)
    if user in (0, os.geteuid()):
        return
    if group is not None and (primary == group or group in _groups(sock)):
        return
    raise UsageError(
        f"user {user} may not use this daemon: only its own user, root and members of"
        " daemon.socket_group may; join that group, or set it",
        user=user,
    )


def _groups(sock: socket.socket) -> tuple[int, ...]:
    """Return the supplementary groups that the peer had when it connected; empty if over 256."""
    try:
        raw = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _MAX_GROUPS)
    except OSError as error:
        if error.errno != errno.ERANGE:
            raise
        return ()
    return struct.unpack(f"{len(raw) // 4}I", raw)
