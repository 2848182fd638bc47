"""Keys of the daemons and loaders of one `serve`, in memory files: no disk has them.

All daemons share one key, and all loaders another. Both travel in messages of Ray, to actors and
with the directory to loaders, so they are as secret as these.
"""

import os
from typing import NamedTuple

from stoker.protocol.remote.keys import public_text, secret_text


class KeyPair(NamedTuple):
    """A CURVE key pair, each key of 32 bytes."""

    public: bytes
    secret: bytes


class ServeKeys(NamedTuple):
    """The keys of one `serve`."""

    daemons: KeyPair
    loaders: KeyPair


def make_keys() -> ServeKeys:
    """Return new keys."""
    import zmq  # noqa: PLC0415 - nothing else here needs it
    from zmq.utils import z85  # noqa: PLC0415

    made = (KeyPair(*map(z85.decode, zmq.curve_keypair())) for _ in range(2))
    return ServeKeys(*made)


def secret_file(pair: KeyPair) -> int:
    """Return the descriptor of a memory file with a secret key; the caller closes it."""
    return _memory_file(f"{secret_text(pair.secret)}\n")


def clients_file(pair: KeyPair) -> int:
    """Return the descriptor of a memory file that lists one client; the caller closes it."""
    return _memory_file(f"{public_text(pair.public)} ray\n")


def path_of(descriptor: int) -> str:
    """Return the path of a memory file, for processes that have the same descriptor."""
    return f"/proc/self/fd/{descriptor}"


def _memory_file(text: str) -> int:
    descriptor = os.memfd_create("stoker-keys")
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, text.encode())
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
