"""Daemons that were lost, tried again and again in a thread until they come back.

A process at its limit of threads goes on with the other daemons; the thread starts later.
"""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Final

from stoker.client.connection import PASSING, DaemonConnection
from stoker.protocol.descriptors import too_few_threads
from stoker.protocol.errors import StokerError

PAUSE_S: Final = 0.5
JOIN_S: Final = 5.0
_log = logging.getLogger("stoker.client")


class Returns:
    """The lost daemons of one loader; the caller's thread takes those that are back.

    Args of the constructor:
        connect: opens the stream at an address.
    """

    def __init__(self, connect: Callable[[str], DaemonConnection]) -> None:
        self._connect = connect
        self._lost: set[str] = set()
        self._back: queue.SimpleQueue[tuple[str, DaemonConnection]] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._faults: dict[str, str] = {}
        self._waits = False

    @property
    def lost(self) -> set[str]:
        """Addresses that are tried."""
        return set(self._lost)

    def expect(self, address: str) -> None:
        """Try an address from now on."""
        with self._changed:
            self._lost.add(address)
            self._changed.notify()
        self._start()

    def forget(self, address: str) -> None:
        """Try an address no longer."""
        with self._changed:
            self._lost.discard(address)

    def take(self, timeout_s: float = 0.0) -> tuple[str, DaemonConnection] | None:
        """Return the next daemon that is back; None if no daemon comes back in that time."""
        if self._lost and self._thread is None:
            self._start()
        try:
            return self._back.get(timeout=timeout_s) if timeout_s else self._back.get_nowait()
        except queue.Empty:
            return None

    def close(self) -> None:
        """End the thread, and close what was not taken."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(JOIN_S)
        while (found := self.take()) is not None:
            found[1].close()

    def _start(self) -> None:
        """Start the thread, unless it runs, this is closed, or the system starts no more."""
        if self._closed or self._thread is not None:
            return
        thread = threading.Thread(target=self._work, name="stoker-hosts", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._waits:
                _log.error("%s", too_few_threads("lost daemons are not looked for yet").message)
            self._waits = True
        else:
            self._thread = thread

    def _work(self) -> None:
        """Run in the thread."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._lost)
                self._changed.wait_for(lambda: self._closed, PAUSE_S)
                if self._closed:
                    return
                lost = sorted(self._lost)
            for address in lost:
                self._try(address)

    def _try(self, address: str) -> None:
        try:
            connection = self._connect(address)
        except StokerError as error:
            if type(error) in PASSING:
                return
            self.forget(address)
            _log.error("the daemon at %s is left out: %s", address, error.message)
            return
        except Exception as error:  # such as no free descriptor; no caller waits here
            self._report(address, error)
            return
        self._faults.pop(address, None)
        with self._changed:
            wanted = address in self._lost and not self._closed
            if wanted:
                self._back.put((address, connection))  # before: one of the two always has it
            self._lost.discard(address)
        if not wanted:
            connection.close()

    def _report(self, address: str, error: Exception) -> None:
        """Log a fault of this process, each once while it lasts."""
        fault = f"{type(error).__name__}: {error}"
        if self._faults.get(address) != fault:
            _log.error("the daemon at %s cannot be reached, and is tried again: %s", address, fault)
        self._faults[address] = fault
