"""A list of daemons that changes while loaders use it, and the thread that looks at it.

`Directory` is for schedulers: one method says where daemons run now. Each loader with a directory
asks it in a thread, so that neither a slow scheduler nor a missing one delays a batch.
"""

import abc
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from stoker.client.hosts.returns import JOIN_S
from stoker.protocol.descriptors import too_few_threads
from stoker.protocol.errors import UsageError
from stoker.protocol.request.stream_request import MAX_HOSTS

_log = logging.getLogger("stoker.client")
_LEAST_PAUSE_S: Final = 0.01


class Directory(abc.ABC):
    """A directory of running daemons: `Loader(directory, ...)` uses them, and follows changes.

    Attributes:
        pause_s: seconds between two calls of `addresses`.
        key: file of the clients' secret key; None: that of the loader or the environment.
        daemon_key: the daemons' public key, or its file; None likewise.
    """

    pause_s: float = 1.0
    key: str | os.PathLike[str] | None = None
    daemon_key: str | os.PathLike[str] | None = None

    @abc.abstractmethod
    def addresses(self) -> Sequence[str]:
        """Return the addresses of the daemons that run now.

        Called once by the thread that makes the loader, later by a thread of that loader, also by
        several loaders at a time. It may take seconds. After an exception or an empty list the
        loader keeps the addresses that it has.
        """


def check_addresses(addresses: object, also: str = "") -> list[str]:
    """Return the addresses of several daemons.

    Args:
        addresses: a user's value.
        also: what else the caller takes, for the error.

    Raises:
        UsageError: it is not a list, it is empty or too long, an address comes twice, or an entry
            is not an address.
    """
    if isinstance(addresses, str | type) or not isinstance(addresses, Iterable):
        hint = "; make an object of it first" if isinstance(addresses, type) else ""
        raise UsageError(
            f"expected {also}a list of addresses of daemons, or a Directory, got"
            f" {addresses!r}{hint}"
        )
    found = [str(address) for address in addresses]
    if not 1 <= len(found) <= MAX_HOSTS:
        raise UsageError(f"expected 1 to {MAX_HOSTS} addresses of daemons, got {len(found)}")
    for address in found:
        if "://" not in address:
            raise UsageError(
                f"several daemons: expected ipc:// or tcp:// addresses, got {address!r}; the path"
                " of a dataset works only alone"
            )
        if found.count(address) > 1:
            raise UsageError(
                f"several daemons: expected each address once, got {address} {found.count(address)}"
                " times"
            )
    return found


class Watch:
    """Asks a directory again and again, in a thread; the caller's thread takes the news.

    Args of the constructor:
        directory: what is asked.
        known: its addresses when the loader opened.

    Raises:
        ResourceError: the system starts no more threads.
    """

    def __init__(self, directory: Directory, known: Sequence[str]) -> None:
        self._directory = directory
        self._known = list(known)
        self._news: deque[list[str]] = deque(maxlen=1)
        self._closed = threading.Event()
        self._fault = ""
        self._thread = threading.Thread(target=self._work, name="stoker-directory", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            raise too_few_threads("a Loader that follows a directory") from None

    def news(self) -> list[str] | None:
        """Return the addresses if they have changed since the last call."""
        try:
            return self._news.pop()
        except IndexError:
            return None

    def close(self) -> None:
        """End the thread, unless the directory takes longer than some seconds to answer."""
        self._closed.set()
        self._thread.join(JOIN_S)

    def _work(self) -> None:
        """Run in the thread."""
        while not self._closed.wait(max(self._directory.pause_s, _LEAST_PAUSE_S)):
            try:
                found = self._directory.addresses()
                found = self._known if found == [] else check_addresses(found)
                self._fault = ""
            except Exception as error:  # code of a user, in a thread that is never joined
                self._report(error)
                continue
            if set(found) != set(self._known):
                self._known = found
                self._news.append(found)

    def _report(self, error: Exception) -> None:
        """Log a fault, each once while it lasts."""
        fault = f"{type(error).__name__}: {error}"
        if fault != self._fault:
            _log.error("the directory of the daemons failed, and is asked again: %s", fault)
        self._fault = fault
