"""HELLO: what a client tells a daemon about itself, for the daemon's log."""

import functools
import os
import socket

from stoker.protocol import version
from stoker.protocol.messages import Hello
from stoker.protocol.request.argument_checks import MAX_NAME
from stoker.protocol.users import user_name


def hello(name: str, certificate: bytes = b"") -> Hello:
    """Return the HELLO of this process.

    Args:
        name: the loader's; or empty.
        certificate: of its carrier; empty on the daemon's host.
    """
    return Hello(
        version.WIRE, version.WIRE, f"stoker.client {version.STOKER}", certificate, name,
        _sendable(socket.gethostname()), os.getpid(), _user(os.geteuid()),
    )  # fmt: skip


@functools.cache  # a directory service can take seconds
def _user(number: int) -> str:
    return _sendable(user_name(number))


def _sendable(text: str) -> str:
    return text.encode(errors="replace").decode()[:MAX_NAME]
