"""Checks the owner of the process that listens at the daemon's sockets.

It may be this user, root, or the user named in the environment.

The kernel says which user's process called `listen` (`SO_PEERCRED`). The side socket is checked on
the connection that is used. ZeroMQ connects by itself and does not show its descriptor, so its
socket is checked by a plain connection to the same path just before. Between the two, a user who
can write to the folder could put another socket in its place; the daemon's own folder does not let
others do that.
"""

import errno
import os
import pwd
import socket
import struct
import time
from typing import Final

from stoker.protocol.errors import AccessError, ConfigError, ConnectError
from stoker.protocol.users import user_name

TRUSTED: Final = "STOKER_TRUSTED_USER"
"""Environment variable: name or number of another user whose daemon may be used."""
POLL_S: Final = 0.02
_CREDENTIALS: Final = "3i"  # struct ucred: pid, uid, gid
_LATER: Final = (errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN)


def check_peer(sock: socket.socket, address: str) -> None:
    """Check the user of the process at the other end of a connected Unix socket.

    Raises:
        AccessError: it is neither this user, root nor the trusted user.
        ConfigError: the trusted user does not exist.
    """
    size = struct.calcsize(_CREDENTIALS)
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    uid = struct.unpack(_CREDENTIALS, data)[1]
    if uid in (os.geteuid(), 0) or uid == _trusted():
        return
    raise AccessError(
        f"the process that listens at {address} is of user {_named(uid)}; expected user"
        f" {_named(os.geteuid())} or root. If that user runs the daemon for others, set"
        f" {TRUSTED}={uid} in the environment; otherwise choose an address in a folder that others"
        " cannot write",
        address=address,
        user=uid,
    )


def check_listener(path: str, address: str, deadline: float) -> None:
    """Check the user who listens at a path, by a connection of its own.

    Waits while there is no socket: a daemon with few free descriptors takes it away for a while.
    At the deadline it returns, because the connection that follows reports the timeout.

    Raises:
        AccessError, ConfigError: as `check_peer`.
        ConnectError: it cannot connect.
    """
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as sock:
            number = sock.connect_ex(path)
            if number == 0:
                check_peer(sock, address)
                return
        if number not in _LATER:
            raise ConnectError(
                f"no daemon listens at {address}: {os.strerror(number)} ({path})", address=address
            )
        if time.monotonic() >= deadline:
            return
        time.sleep(POLL_S)


def _trusted() -> int | None:
    name = os.environ.get(TRUSTED, "")
    if not name:
        return None
    if name.isdecimal():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise ConfigError(
            f"{TRUSTED}: there is no user {name!r} on this host; expected a name or a number"
        ) from None


def _named(uid: int) -> str:
    name = user_name(uid)
    return name if name == str(uid) else f"{uid} ({name})"
