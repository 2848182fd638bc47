"""Real daemons as real processes, started by the command line."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from daemons import PATIENCE_S, Daemon

STOKER = [sys.executable, "-m", "stoker.server"]


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., Daemon]]:
    """Start daemons, at one address; those that still run after the test are killed.

    `warm=True` forks one from a warm process: for tests that are not about how it starts.
    """
    with contextlib.ExitStack() as started:

        def begin(*flags: str, prefix: Sequence[str] = (), warm: bool = False) -> Daemon:
            (folder / "served.tar").touch()
            usual = [f"--dataset=photos={folder}/served.tar", "--workers=2", "--memory-limit=64MiB"]
            daemon = Daemon(folder, *usual, *flags, socket="run/s.sock", prefix=prefix, warm=warm)
            return started.enter_context(contextlib.closing(daemon))

        yield begin


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
