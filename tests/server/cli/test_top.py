"""`stoker top`: on a terminal until a key ends it, once into a pipe."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import keyed
import pytest
from commands import call

from stoker.client import Loader

pytestmark = pytest.mark.slow
PATIENCE_S = 60.0
AWAY, INTERRUPTED, USAGE = 75, 130, 2
CODES = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|\(B|[=>])")


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "220", "LINES": "60"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stoker", *arguments],
            stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""

    def until(self, *texts: str) -> str:
        """Read until all of these patterns were shown since the last call."""
        self.seen, end = "", time.monotonic() + PATIENCE_S
        while not all(re.search(text, self.seen) for text in texts):
            left_s = end - time.monotonic()
            assert left_s > 0, (texts, self.seen)
            if select.select([self._ours], [], [], left_s)[0]:
                self._read()
        return self.seen

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def end(self) -> int:
        """Read until the command has ended; return its exit status."""
        with contextlib.suppress(OSError):  # how a terminal says that no process has it any more
            while select.select([self._ours], [], [], PATIENCE_S)[0]:
                self._read()
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def _read(self) -> None:
        self.seen += CODES.sub("", os.read(self._ours, 65536).decode(errors="replace"))


@pytest.fixture
def served(tmp_path):
    with keyed.keyed_daemon(tmp_path) as daemon:
        yield daemon


@pytest.fixture
def terminal():
    """Run `stoker top` with these arguments on a terminal."""
    with contextlib.ExitStack() as opened:

        def run(*arguments):
            return opened.enter_context(contextlib.closing(Terminal("top", *arguments)))

        yield run


def lines_of(printed, name):
    """The facts of the lines that begin with a name."""
    found = [line.split() for line in printed.splitlines() if line.split()[0] == name]
    return [dict(fact.split("=", 1) for fact in words[1:]) for words in found]


def test_a_terminal_shows_what_happens_until_a_key_ends_it(served, terminal):
    with Loader(served.ipc, name="run-17", prefetch=2, **keyed.OPTIONS) as loader:
        shown = terminal(served.ipc, "--interval", "0.1")
        first = shown.until("run-17", "1 idle", "rows/s", "q ends")
        assert f"process {served.daemon.pid}, ready" in first
        assert f":{os.getpid()} " in first
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        shown.until(r" 0: [3-9]/\d+ ", " data ", " plain ")
        shown.type(b"x")
        shown.until("run-17")
        shown.type(b"q")
        assert shown.end() == 0


def test_ctrl_c_ends_it_with_the_status_of_an_interruption(served, terminal):
    shown = terminal(served.ipc, "--interval", "3600")
    shown.until("no sessions")
    shown.process.send_signal(signal.SIGINT)
    assert shown.end() == INTERRUPTED
    assert "Traceback" not in shown.seen


def test_a_daemon_that_goes_away_is_one_line_and_a_status(served, terminal):
    shown = terminal(served.ipc, "--interval", "0.1")
    shown.until("no sessions")
    assert served.daemon.stop() == 0
    assert shown.end() == AWAY
    assert re.search(r"stoker: .*(shut down|went away|lost|gone)[^\n]*\r?\n\Z", shown.seen)
    assert "Traceback" not in shown.seen


def test_into_a_pipe_it_prints_one_look(served):
    with Loader(served.ipc, name="run-17", **keyed.OPTIONS) as loader:
        next(iter(loader))
        _until_announced(served.ipc, keyed.ROWS // keyed.OPTIONS["batch_size"])
        code, printed, errors = call("top", served.ipc, "--interval", "0.1")
        assert (code, errors) == (0, "")
        assert "\x1b" not in printed
        (worker,), (session,) = lines_of(printed, "worker"), lines_of(printed, "session")
        assert (worker["number"], worker["state"], worker["op"]) == ("1", "idle", '""')
        assert int(worker["pid"]) > 0
        assert (session["name"], session["dataset"], session["pipeline"]) == (
            "run-17",
            "data",
            "plain",
        )
        assert float(session["rows_per_s"]) == 0.0, "no batch was announced meanwhile"
        assert [*lines_of(printed, "rates")[0]] == ["rows_per_s", "batches_per_s"]
    code, printed, _ = call("top", served.ipc, "--once", "--interval", "0.1", FORCE_COLOR="1")
    assert code == 0
    assert "no sessions" in printed


def _until_announced(address, batches):
    """Wait until the daemon has announced so many batches to its only session."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        _, printed, _ = call("status", "--json", address)
        (session,) = json.loads(printed)["sessions"]
        if session["announced"] >= batches:
            return
        assert time.monotonic() < deadline, session


def test_what_it_cannot_do_is_one_line(tmp_path):
    address = f"ipc://{tmp_path}/none.sock"
    code, printed, errors = call("top", address)
    assert (code, printed) == (AWAY, "")
    assert errors.startswith(f"stoker: no daemon listens at {address}: ")
    assert call("top", address, "--interval", "0")[0] == USAGE
