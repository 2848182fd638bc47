"""The client's end of the side socket: connecting, and reading memory that was passed."""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator

from stoker.client.address import side_path
from stoker.client.peer_credentials import check_peer
from stoker.protocol.errors import (
    ConnectError,
    DaemonLostError,
    PeerError,
    ProtocolError,
    UsageError,
)


def forked_error(pid: int) -> UsageError:
    """Return the error for the use of a loader or session of process `pid` in a forked child."""
    return UsageError(
        f"this loader was made in process {pid} and is used in process {os.getpid()}, which was "
        "forked from it; make a Loader in each process that loads, after the fork"
    )


def read_memory(descriptor: int, size_bytes: int) -> bytes:
    """Copy the content of a descriptor; the daemon may change the file at any time.

    Raises:
        ProtocolError: it holds fewer bytes than announced, or cannot be read.
    """
    parts, end = [], 0
    try:
        while end < size_bytes and (part := os.pread(descriptor, size_bytes - end, end)):
            parts.append(part)
            end += len(part)
    except OSError as error:
        raise ProtocolError(f"the replay's memory cannot be read: {error.strerror}") from None
    if end < size_bytes:
        raise ProtocolError(f"expected a replay of {size_bytes} bytes, got {end}")
    return b"".join(parts)


def connect_side(address: str, timeout_s: float) -> socket.socket:
    """Connect to the side socket; its end of file means that the daemon is gone.

    Waits while the daemon accepts no connection.

    Raises:
        ConnectError: no daemon listens there, the process there is of another user, or the daemon
            accepts no connection within the time limit.
    """
    path = side_path(address)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(max(timeout_s, 0.001)))
        sock.connect(path)
        check_peer(sock, address)
        sock.setblocking(False)
    except BlockingIOError:
        sock.close()
        raise ConnectError(
            f"the daemon at {address} accepted no connection within {timeout_s:g} s ({path}): it"
            " has too many connections or is stopped; see its log",
            address=address,
        ) from None
    except OSError as error:
        sock.close()
        raise ConnectError(
            f"no daemon listens at {address}: {error.strerror or 'timed out'} ({path}). Start one "
            "with `stoker serve`, or pass the path of a packed dataset for a private one"
            + _permission_hint(error),
            address=address,
        ) from None
    except BaseException:
        sock.close()
        raise
    return sock


def _timeval(seconds: float) -> bytes:
    """Return a duration as the kernel's `struct timeval`."""
    whole = int(seconds)
    return struct.pack("@ll", whole, int((seconds - whole) * 1e6))


def _permission_hint(error: OSError) -> str:
    if not isinstance(error, PermissionError):
        return ""
    return "; the daemon of another user lets a group use its sockets with socket_group"


@contextlib.contextmanager
def as_connect_error(address: str, timeout_s: float) -> Iterator[None]:
    """Turn a daemon's silence or end before the session is up into a `ConnectError`."""
    try:
        yield
    except DaemonLostError:
        raise ConnectError(
            f"the daemon at {address} closed the connection before the session was open; it may "
            "be shutting down, or refuse this user: see its log",
            address=address,
        ) from None
    except PeerError as error:
        if type(error) is not PeerError:
            raise
        raise ConnectError(
            f"something listens at {address} but did not answer within {timeout_s:g} s; is it a "
            "daemon of Stoker, and alive?",
            address=address,
        ) from None
