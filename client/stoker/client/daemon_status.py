"""Asks a daemon what it does, for `stoker status` and `stoker top`; opens no stream."""

import contextlib
from collections.abc import Callable, Iterator

from stoker.client.remote.loader_keys import PathOrText, resolve_keys
from stoker.client.remote.remote_session import session_at
from stoker.protocol.messages import Status

NAME = "stoker status"
"""The name of the session in the log of the daemon."""
RESIZE_NAME = "stoker resize"


def ask_status(
    address: str,
    timeout_s: float = 10.0,
    key: PathOrText | None = None,
    daemon_key: PathOrText | None = None,
) -> Status:
    """Return the status of a daemon.

    Args:
        address: `ipc:///path` or `tcp://HOST:PORT`.
        timeout_s: time limit for the connection, and for the answer.
        key: as in `Loader`.
        daemon_key: as in `Loader`.

    Raises:
        UsageError: the address or the keys cannot be used.
        ConnectError: no daemon listens there, or it accepts no connection in time.
        TryAgainError: all sessions of the daemon are taken.
        PeerError: the daemon refuses, went away, or does not answer in time.
    """
    with asking(address, timeout_s, key, daemon_key) as ask:
        return ask()


def ask_to_resize(address: str, workers: int, timeout_s: float = 10.0) -> Status:
    """Ask a daemon on this host for another number of workers; return its counters after that.

    Raises:
        UsageError: the number is out of range, or the address cannot be used.
        AccessError: this user may not.
        ConnectError: no daemon listens there, or it accepts no connection in time.
        PeerError: the daemon went away, or does not answer in time.
    """
    with contextlib.closing(session_at(address, timeout_s, None, RESIZE_NAME)) as session:
        return session.resize(workers, timeout_s)


@contextlib.contextmanager
def asking(
    address: str,
    timeout_s: float = 10.0,
    key: PathOrText | None = None,
    daemon_key: PathOrText | None = None,
    name: str = NAME,
) -> Iterator[Callable[[], Status]]:
    """Give a function that asks a daemon for its status, again and again in one session.

    Args:
        address: as for `ask_status`, and so are the others and the errors.
        timeout_s: see above.
        key: see above.
        daemon_key: see above.
        name: what the log of the daemon calls the session.
    """
    keys = resolve_keys(address, key, daemon_key)
    with contextlib.closing(session_at(address, timeout_s, keys, name)) as session:
        yield lambda: session.ask_status(timeout_s)
