"""`stoker status`: who reads what, through the command line, of a daemon with real clients."""

import contextlib
import getpass
import io
import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import keyed
import pytest
from commands import call
from rich.console import Console

from stoker.client import Loader
from stoker.protocol.messages import Status, WorkerStatus
from stoker.server.commands.status_tables import print_tables

pytestmark = pytest.mark.slow
USAGE, AWAY, CONFIGURATION = 2, 75, 78


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    with keyed.keyed_daemon(tmp_path_factory.mktemp("status")) as daemon:
        yield daemon


@pytest.fixture
def loader(served: SimpleNamespace) -> Iterator[Loader]:
    options = {**keyed.OPTIONS, "prefetch": 2, "total_epochs": 90}
    with Loader(served.ipc, name="run-17", **options) as opened:
        yield opened


def told(*arguments: object) -> dict:
    code, printed, errors = call("status", *arguments, "--json")
    assert (code, errors) == (0, "")
    return json.loads(printed)


def test_a_session_and_its_counts_as_json(served: SimpleNamespace, loader: Loader) -> None:
    (before,) = told(served.ipc)["sessions"]
    assert (before["state"], before["announced"], before["waited_s"]) == ("open", 0, 0.0)
    taken = [batch.step for _, batch in zip(range(7), loader, strict=False)]
    facts = told(served.ipc)
    (session,) = facts["sessions"]
    who = {
        "name": "run-17", "host": socket.gethostname(), "pid": os.getpid(), "known_from": "kernel",
        "user": getpass.getuser(), "dataset": "data", "pipeline": "plain", "group": "",
        "stream": loader.spec.stream_id, "rank": 0, "world_size": 1, "state": "open", "epochs": 90,
    }  # fmt: skip
    assert {name: session[name] for name in who} == who
    assert (session["epoch"], session["steps"]) == (0, keyed.ROWS // 4)
    assert len(taken) <= session["announced"] <= len(taken) + 2
    assert session["step"] == session["announced"]
    assert session["untaken"] == session["announced"] - len(taken)
    assert session["announced"] - session["slots"] <= session["returned"] <= len(taken)
    assert 0 < session["waited_s"] < session["age_s"]
    assert (facts["datasets"], facts["pipelines"]) == (["data"], ["plain"])
    assert (facts["unready"], facts["pid"]) == ("", served.daemon.pid)
    assert facts["counters"]["workers"] == 1
    assert [(one["dataset"], one["pipeline"]) for one in facts["stages"]] == [("data", "plain")]
    assert {stage["stage"] for stage in facts["stages"][0]["stages"]} >= {"write"}
    assert facts["counters"]["sessions"] == 2, "the loader, and the command itself"


def test_lines_into_a_pipe(served: SimpleNamespace, loader: Loader) -> None:
    next(iter(loader))
    code, printed, errors = call("status", served.ipc)
    assert (code, errors) == (0, "")
    lines = printed.splitlines()
    assert lines[0] == f'daemon address={served.ipc} pid={served.daemon.pid} unready=""'
    assert lines[1] == "workers configured=1 up=1"
    assert lines[2] == "jpegs own_decoder=0"
    assert lines[3].startswith("memory used_bytes=")
    assert lines[4].startswith("slots ")
    assert lines[5:7] == ["dataset name=data", "pipeline name=plain"]
    worker, session = lines[7:]
    assert re.match(r"worker number=1 pid=\d+ state=\w+ op=", worker)
    assert session.startswith(f"session name=run-17 host={socket.gethostname()} pid={os.getpid()} ")
    assert " state=open dataset=data pipeline=plain " in session


def test_a_table_on_a_terminal(served: SimpleNamespace, loader: Loader) -> None:
    next(iter(loader))
    terminal = {"FORCE_COLOR": "1", "COLUMNS": "200"}
    code, printed, errors = call("status", served.ipc, **terminal)
    assert (code, errors) == (0, "")
    assert "1 of 1 are up" in printed
    assert "libjpeg-turbo" in printed
    assert f"{getpass.getuser()}@{socket.gethostname()}:{os.getpid()}" in printed
    assert f"/{keyed.ROWS // 4} " in printed
    assert "│ run-17 " in printed
    assert re.search(r"^│ 1 +│ \d+ +│ \w+ +│", printed, re.M), "worker, pid, what it does"
    loader.close()
    assert "no sessions" in call("status", served.ipc, **terminal)[1]


def test_workers_that_a_daemon_does_not_list_are_counted() -> None:
    worker = WorkerStatus(
        1,
        40,
        "read",
        "",
        0.5,
        0.5,
        1.0,
        "data",
        "plain",
        "run-17",
        1,
        "s",
        "",
        0,
        0,
        3,
        7,
        9,
        2,
        8.0,
    )
    console = Console(file=io.StringIO(), width=120)
    print_tables(console, "ipc:///a", Status({"workers": 300, "sessions": 1}, workers=[worker]))
    assert "and 299 workers more" in console.file.getvalue()


def test_the_daemon_is_found_as_serve_finds_it(served: SimpleNamespace, tmp_path: Path) -> None:
    file = tmp_path / "stoker.toml"
    file.write_text(f'[daemon]\naddress = "{served.ipc}"\n')
    assert told(file)["pid"] == served.daemon.pid
    for name, value in {"CONFIG": str(file), "DAEMON_ADDRESS": served.ipc}.items():
        code, printed, _ = call("status", "--json", **{f"STOKER_{name}": value})
        assert (code, json.loads(printed)["address"]) == (0, served.ipc)


def test_a_daemon_on_another_host_needs_the_keys_of_a_client(served: SimpleNamespace) -> None:
    keys = ("--key", served.root / "alice.key", "--daemon-key", served.public)
    assert told(served.tcp, *keys)["pid"] == served.daemon.pid
    code, printed, errors = call("status", served.tcp, *keys[:2])
    assert (code, printed) == (USAGE, "")
    assert "expected key= and daemon_key= together" in errors


def test_no_daemon_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/none.sock"
    code, printed, errors = call("status", address)
    assert (code, printed) == (AWAY, "")
    assert errors == (
        f"stoker: no daemon listens at {address}: No such file or directory ({tmp_path}/none.sock"
        ".fd). Start one with `stoker serve`, or pass the path of a packed dataset for a private"
        " one\n"
    )


def test_the_file_of_a_socket_is_answered_with_its_address(tmp_path: Path) -> None:
    path = tmp_path / "stoker.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        code, printed, errors = call("status", path)
    assert (code, printed) == (USAGE, "")
    assert errors == (
        f"stoker: {path} is a socket: write its address, ipc://{path}, or the daemon's TOML file\n"
    )


def test_a_daemon_that_is_stopped_does_not_keep_the_command_waiting(
    served: SimpleNamespace,
) -> None:
    os.kill(served.daemon.pid, signal.SIGSTOP)
    try:
        code, printed, errors = call("status", served.ipc, "--timeout=0.2")
    finally:
        os.kill(served.daemon.pid, signal.SIGCONT)
    assert (code, printed, errors.count("\n")) == (AWAY, "", 1)
    assert served.ipc in errors


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ("/nowhere.toml",),
            CONFIGURATION,
            "configuration file /nowhere.toml: No such file or directory",
        ),
        (("ipc://relative",), USAGE, "expected an absolute path after ipc://"),
        (("http://host",), USAGE, "expected ipc:///absolute/path, tcp://HOST:PORT"),
        (
            ("ipc:///run/s.sock", "--key=k"),
            USAGE,
            "keys work only with a daemon at tcp://HOST:PORT",
        ),
        (("--timeout=0",), 2, "Invalid value for '--timeout'"),
        (("--timeout=inf",), 2, "Invalid value for '--timeout'"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], status: int, message: str) -> None:
    with contextlib.chdir("/"):
        code, printed, errors = call("status", *arguments, NO_COLOR="1", COLUMNS="200", TERM="dumb")
    assert (code, printed) == (status, "")
    assert message in errors
