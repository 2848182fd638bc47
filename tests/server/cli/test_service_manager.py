"""What `stoker serve` says to a service manager, read from a socket in place of systemd's."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator

import pytest

from stoker.client.client_session import ClientSession

pytestmark = pytest.mark.slow
PATIENCE_S = 60.0


class Manager:
    """The end of a service manager: what one daemon says, state by state."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))
        self.heard: list[str] = []

    def wait(self, state: str) -> None:
        """Read until a state comes; fails after a minute."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.heard or self.heard[-1] != state:
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            self.heard.append(self._socket.recv(4096).decode())

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request, folder, monkeypatch) -> Iterator[Manager]:
    names = {"path": f"{folder}/notify", "abstract": f"@stoker-test-{os.getpid()}"}
    made = Manager(names[request.param])
    monkeypatch.setenv("NOTIFY_SOCKET", names[request.param])
    yield made
    made.close()


def test_it_says_that_it_is_ready_alive_and_stopping(serve, manager, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "500000")
    served = serve(warm=True)
    manager.wait("STATUS=workers: 2 of 2, sessions: 0")
    assert manager.heard.count("READY=1") == 1
    manager.wait("WATCHDOG=1")
    with contextlib.closing(ClientSession(served.address, PATIENCE_S, "test")):
        manager.wait("STATUS=workers: 2 of 2, sessions: 1")
    manager.wait("STATUS=workers: 2 of 2, sessions: 0")
    served.process.send_signal(signal.SIGTERM)
    manager.wait("STOPPING=1")
    assert served.wait() == 0


def test_without_a_watchdog_it_gives_no_signs_of_life(serve, manager, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "500000")
    monkeypatch.setenv("WATCHDOG_PID", "1")  # another process's
    served = serve(warm=True)
    manager.wait("STATUS=workers: 2 of 2, sessions: 0")
    served.process.send_signal(signal.SIGTERM)
    manager.wait("STOPPING=1")
    assert served.wait() == 0
    assert "WATCHDOG=1" not in manager.heard


def test_a_manager_that_is_not_there_changes_nothing(serve, folder, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", f"{folder}/nobody")
    served = serve("--log-format=text", warm=True)
    assert served.ready == {"address": served.address}
    assert served.stop() == 0
    served.logged("service_manager_unreachable")
