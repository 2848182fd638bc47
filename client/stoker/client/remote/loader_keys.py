"""The keys of a connection to another host: arguments of the loader, or the environment."""

import os
from typing import Final, NamedTuple

import zmq
from zmq.utils import z85

from stoker.protocol.errors import UsageError
from stoker.protocol.remote.keys import public_key_of, read_secret_file
from stoker.protocol.remote.tcp import SCHEME

KEY_VARIABLE: Final = "STOKER_CLIENT_KEY"
DAEMON_KEY_VARIABLE: Final = "STOKER_CLIENT_DAEMON_KEY"
PathOrText = str | os.PathLike[str]


class Keys(NamedTuple):
    """The client's own key, and the daemon's public one."""

    secret: bytes
    public: bytes
    daemon: bytes


def resolve_keys(
    address: str, key: PathOrText | None, daemon_key: PathOrText | None
) -> Keys | None:
    """Return the keys for an address; None: it needs none, or none are given.

    Args:
        address: of the daemon, or the path of a dataset.
        key: file with the client's secret key; None takes the environment's.
        daemon_key: the daemon's public key, or a file with it; None takes the environment's.

    Raises:
        UsageError: keys for an address on this host, or one key without the other.
        ConfigError: a file cannot be used.
    """
    if not address.startswith(SCHEME):
        for name, value in (("key", key), ("daemon_key", daemon_key)):
            if value is not None:
                raise UsageError(
                    f"{name}=: keys work only with a daemon at tcp://HOST:PORT, got {address!r};"
                    f" leave {name}= out"
                )
        return None
    key = key or os.environ.get(KEY_VARIABLE)
    daemon_key = daemon_key or os.environ.get(DAEMON_KEY_VARIABLE)
    if not key and not daemon_key:
        return None
    if not key or not daemon_key:
        missing, what, variable = (
            ("key", "this client's secret key file", KEY_VARIABLE)
            if not key
            else ("daemon_key", "the daemon's public key", DAEMON_KEY_VARIABLE)
        )
        raise UsageError(
            f"expected key= and daemon_key= together, got one of them; add {missing}=, {what} (or"
            f" set {variable} in the environment)"
        )
    secret = read_secret_file(key, "key")
    public = z85.decode(zmq.curve_public(z85.encode(secret)))
    daemon = public_key_of(daemon_key, "daemon_key")
    if daemon == public:
        raise UsageError(
            "daemon_key=: expected the daemon's public key, got this client's own; use the .pub"
            " file of the daemon"
        )
    return Keys(secret, public, daemon)
