"""Real daemons as real processes, started by the command line."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PATIENCE_S = 60.0
STOKER = [sys.executable, "-m", "stoker.server"]


class Served:
    """One `stoker serve` process and what it said."""

    def __init__(self, folder: Path, flags: list[str]) -> None:
        ready, theirs = os.pipe()
        self.address = f"ipc://{folder}/run/s.sock"
        self.errors = tempfile.TemporaryFile("w+", dir=folder)  # noqa: SIM115 - closed in `close`
        self.process = subprocess.Popen(
            [
                *STOKER, "serve", f"--address={self.address}", f"--dataset=photos={folder}",
                "--workers=2", "--memory-limit=64MiB", f"--ready-fd={theirs}", *flags,
            ],
            pass_fds=[theirs],
            stderr=self.errors,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        with open(ready) as file:
            assert select.select([file], [], [], PATIENCE_S)[0], "it does not become ready"
            self.ready = json.loads(file.read() or "null")

    def children(self) -> list[int]:
        """The pids of all its descendants."""
        found, todo = [], [self.process.pid]
        while todo:
            pid = todo.pop()
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    todo += [int(word) for word in task.read_text().split()]
            found.append(pid)
        return found[1:]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return the exit code and what it wrote to standard error."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        code = self.process.wait(PATIENCE_S)
        self.errors.seek(0)
        return code, self.errors.read()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.errors.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, as sockets need it."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., Served]]:
    """Start daemons; whatever still runs after the test is killed."""
    started: list[Served] = []

    def begin(*flags: str) -> Served:
        started.append(Served(folder, list(flags)))
        return started[-1]

    yield begin
    for served in started:
        served.close()


@pytest.fixture
def stoker():
    """Run a command to its end: (exit code, standard output, standard error)."""

    def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
        ended = subprocess.run(
            [*STOKER, *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env={**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", **environment},
        )
        return ended.returncode, ended.stdout, ended.stderr

    return run
