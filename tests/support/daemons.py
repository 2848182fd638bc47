"""Real daemons as real processes: `stoker serve`, as an operator starts it."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import warm as forking
from counting import wait_for

PATIENCE_S = 300.0


class Daemon:
    """One `stoker serve` process, what it said when it was ready, and its log.

    `ready` is the line of `--ready-fd`: `{"address": ...}`, or `{"error": ...}`, or None if it
    ended without a word. Whoever makes one closes it.
    """

    def __init__(
        self,
        folder: Path,
        *flags: str,
        socket: str = "stoker.sock",
        stderr: int | None = None,
        prefix: Sequence[str] = (),
        warm: bool = False,
    ) -> None:
        """Start it, and wait for its word.

        Args:
            folder: holds the log.
            flags: of `stoker serve`.
            socket: path of the socket from the folder on.
            stderr: a descriptor that takes the log; a file in the folder if None.
            prefix: a command that runs the daemon, such as prlimit with its arguments.
            warm: whether it may be forked from a warm process; see `warm`.
        """
        log, name = tempfile.mkstemp(prefix="log-", dir=folder)
        self.log = Path(name)
        self.address = f"ipc://{folder}/{socket}"
        ready, theirs = os.pipe()
        stoker = [*prefix, sys.executable, "-m", "stoker.server"]
        command = [*stoker, "serve", f"--address={self.address}", f"--ready-fd={theirs}", *flags]
        errors = log if stderr is None else stderr
        self.process = _start(command, theirs, errors, warm=warm and not prefix)
        os.close(theirs)
        os.close(log)
        self._stopped = False
        with open(ready) as file:
            came = select.select([file], [], [], PATIENCE_S)[0]
            self.ready = json.loads((came and file.read()) or "null")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def stopped(self) -> bool:
        """True if its end was asked for, or waited for, by the test."""
        return self._stopped

    def logged(self, text: str) -> str:
        """Return the first line of the log with a text; waits for it: a thread writes the log."""

        def found() -> str | None:
            lines = self.log.read_text().splitlines()
            return next((line for line in lines if text in line), None)

        wait_for(found)
        return str(found())

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end; return the exit code."""
        self._stopped = True
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        """Kill what still runs."""
        self.process.kill()
        self.process.wait()


def _start(
    command: list[str], ready: int, errors: int, *, warm: bool
) -> "subprocess.Popen[bytes] | forking.Forked":
    if warm:
        with open(os.devnull, "rb") as nothing:
            descriptors = {0: nothing.fileno(), 1: 1, 2: errors, ready: ready}
            forked = forking.start(command, descriptors)
        if forked is not None:
            return forked
    return subprocess.Popen(command, pass_fds=[ready], stdin=subprocess.DEVNULL, stderr=errors)


@contextmanager
def serving(folder: Path, *flags: str) -> Iterator[Daemon]:
    """Run a daemon that comes up and, unless the test ends it itself, ends in good order.

    Args:
        folder: of the socket and the log.
        flags: of `stoker serve`.
    """
    daemon = Daemon(folder, *flags, warm=True)
    try:
        assert (daemon.ready or {}).get("address") == daemon.address, daemon.log.read_text()
        yield daemon
        if not daemon.stopped:
            assert daemon.stop() == 0, daemon.log.read_text()
        assert "Traceback" not in daemon.log.read_text(), daemon.log.read_text()
    finally:
        daemon.close()


class Restarted:
    """A daemon that is killed and started again at one address.

    `stderr` is a descriptor that takes its log; a file in the folder if None.
    """

    def __init__(self, folder: Path, *flags: str, stderr: int | None = None) -> None:
        self.folder = folder
        self.stderr = stderr
        self.flags = flags
        self.address = f"ipc://{folder}/stoker.sock"
        self._daemon: Daemon | None = None
        self._thread: threading.Thread | None = None

    def start(self, *flags: str) -> None:
        """Start it with these flags, or those that it had."""
        given = flags or self.flags
        self._daemon = Daemon(self.folder, *given, stderr=self.stderr, warm=True)
        ready = self._daemon.ready or {}
        assert ready.get("address") == self.address, (ready, self._daemon.log.read_text())

    @property
    def pid(self) -> int:
        assert self._daemon is not None
        return self._daemon.pid

    def kill(self) -> None:
        """Kill it, and wait for its end."""
        assert self._daemon is not None
        self._daemon.stop(signal.SIGKILL)

    def stop(self) -> None:
        """End it in good order."""
        self.join()
        assert self._daemon is not None
        self._daemon.stop()

    def restart(self) -> None:
        self.kill()
        self.start()

    def in_thread(self, action: Callable[[], None]) -> None:
        """Do something while the client waits."""
        self._thread = threading.Thread(target=action, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for what was begun."""
        if self._thread is not None:
            self._thread.join(30)

    def close(self) -> None:
        self.join()
        if self._daemon is not None:
            self._daemon.close()


def children(pid: int) -> list[int]:
    """Return the pids of a process's children, without those of threads that end meanwhile."""
    found: list[int] = []
    with suppress(FileNotFoundError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def descendants(pid: int) -> list[int]:
    """Return the pids of a process's descendants."""
    found = children(pid)
    return found + [later for child in found for later in descendants(child)]


def state(pid: int) -> str:
    """Return the state of a process, as "T" if a signal has stopped it; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
