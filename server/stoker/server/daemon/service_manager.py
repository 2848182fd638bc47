"""Tells the service manager how the daemon is, as sd_notify(3) of systemd describes it.

systemd sets NOTIFY_SOCKET for a unit of `Type=notify`, and WATCHDOG_USEC with `WatchdogSec=`. The
daemon says when clients can connect, that its loop turns, and when it stops. Without these
variables it sends nothing. It never waits for the service manager: a message that cannot be sent at
once is lost.
"""

import contextlib
import os
import socket
from collections.abc import Mapping
from typing import Final

from stoker.server.settings import logs

ADDRESS: Final = "NOTIFY_SOCKET"
INTERVAL_US: Final = "WATCHDOG_USEC"
PROCESS: Final = "WATCHDOG_PID"
MOST_TOLD: Final = 200
"""Characters of a status."""


class ServiceManager:
    """Sends states to the service manager, if there is one; belongs to the daemon's loop.

    Attributes:
        every_s: seconds between two signs of life, half of what is allowed; 0: none is wanted.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Connect to the service manager.

        Args:
            environment: has the variables, if there is one.
        """
        found = {name: environment.get(name, "") for name in (ADDRESS, INTERVAL_US, PROCESS)}
        self.every_s = _interval_s(found)
        self._next = 0.0
        self._told = ""
        self._stopping = False
        self._socket: socket.socket | None = None
        if found[ADDRESS]:
            self._socket = _connected(found[ADDRESS])

    def ready(self) -> None:
        """Say that clients can connect."""
        self._send("READY=1")

    def tick(self, now: float, counters: Mapping[str, int | float], unready: str) -> None:
        """Say that the loop turns, and what `systemctl status` shows, if that has changed.

        Args:
            now: in seconds.
            counters: of the daemon.
            unready: why new clients are not welcome; empty: they are.
        """
        if self._socket is None:
            return
        up, workers = counters["workers_up"], counters["workers"]
        told = f"workers: {up} of {workers}, sessions: {counters['sessions']}"
        if unready:
            told = f"{told}; {unready}"[:MOST_TOLD].replace("\n", " ")
        if told != self._told:
            self._told = told
            self._send(f"STATUS={told}")
        if self.every_s and now >= self._next:
            self._next = now + self.every_s
            self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Say that the daemon stops; once."""
        if not self._stopping:
            self._stopping = True
            self._send("STOPPING=1")

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()

    def _send(self, text: str) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.send(text.encode())


def _interval_s(found: Mapping[str, str]) -> float:
    """Return half of the time in which a sign of life must come; 0: none is wanted."""
    meant = found[PROCESS] in {"", str(os.getpid())}
    allowed = found[INTERVAL_US]
    return int(allowed) / 2e6 if meant and allowed.isdecimal() else 0.0


def _connected(address: str) -> socket.socket | None:
    """Return a socket that never waits; None if the address is of no use."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    made.setblocking(False)
    try:
        made.connect("\0" + address[1:] if address.startswith("@") else address)
    except OSError as error:
        made.close()
        logs.log("warning", "service_manager_unreachable", address=address, reason=str(error))
        return None
    return made
