"""Reads a daemon's counters in a session of its own; waits until something has happened."""

import contextlib
import threading
import time
from collections.abc import Callable

from stoker.client.client_session import ClientSession
from stoker.protocol.messages import Status

ANSWER_S = 20.0
PATIENCE_S = 300.0
PAUSE_S = 0.01


def counters(address: str) -> dict[str, int | float]:
    """The daemon's counters."""
    return status(address).counters


def status(address: str) -> Status:
    """The daemon's STATUS, with its sessions.

    Raises:
        PeerError: the daemon answered with an error, or not at all.
    """
    with contextlib.closing(ClientSession(address, ANSWER_S)) as session:
        return session.ask_status(ANSWER_S)


def wait_for(happened: Callable[[], object]) -> None:
    """Wait until something has happened."""
    pause, deadline = threading.Event(), time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, happened
        pause.wait(PAUSE_S)


def counters_at_rest(address: str) -> dict[str, int | float]:
    """The counters, once the sessions of earlier tests and their work have ended."""

    def rests() -> bool:
        found.update(counters(address))
        return not found["groups"] and not found["claims"]

    found: dict[str, int | float] = {}
    wait_for(rests)
    return found
