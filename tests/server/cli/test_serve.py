"""`stoker serve` as a process: ready line, signals, and what it leaves behind (nothing)."""

import contextlib
import json
import os
import re
import select
import signal
import socket
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from daemons import Daemon, descendants

from stoker.server.daemon.launch import PINNED
from stoker.server.daemon.metric_help import HELP

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[3] / "docs" / "operations.md"


def wait_gone(pids: list[int]) -> None:
    """Wait until every one of the processes has ended by itself."""
    deadline = time.monotonic() + 20
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with os.fdopen(handle) as file:
            left_s = max(0.0, deadline - time.monotonic())
            assert select.select([file], [], [], left_s)[0], f"{pid} is still there"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_and_nothing_is_left(serve, folder, number):
    served = serve("--log-format=json", warm=number != signal.SIGTERM)
    assert served.ready == {"address": served.address}
    children = descendants(served.pid)
    assert children, "the template process is missing"
    assert served.stop(number) == 0
    lines = [json.loads(line) for line in served.log.read_text().splitlines()]
    assert lines[0]["event"] == "listening"
    stop = next(line for line in lines if line["event"] == "stop_asked")
    assert stop["signal"] == number.name
    assert lines[-1]["event"] == "stopped"
    wait_gone(children)
    assert os.listdir(folder / "run") == []


def test_killed_it_takes_its_processes_along_and_the_next_start_works(serve, folder):
    served = serve(warm=True)
    children = descendants(served.pid)
    assert served.stop(signal.SIGKILL) == -signal.SIGKILL
    wait_gone(children)
    again = serve(warm=True)
    assert again.ready == {"address": served.address}
    assert again.stop() == 0
    assert os.listdir(folder / "run") == []


def test_a_second_daemon_says_why_it_cannot_start(serve):
    first = serve(warm=True)
    second = serve(warm=True)
    message = (
        f"address {first.address}: another daemon serves it; stop that one or choose another"
        + " address"
    )
    assert second.ready == {"error": ["resource", message, {"address": first.address}]}
    assert (second.wait(), second.log.read_text()) == (75, f"stoker: {message}\n")
    assert first.stop() == 0


def test_it_ends_if_no_client_comes(serve, monkeypatch):
    monkeypatch.setenv("STOKER_DAEMON_FIRST_CLIENT_S", "0.5")
    assert serve("--exit-with-last-client", warm=True).wait() == 0


@pytest.fixture(scope="module")
def idle():
    """An executed daemon with an environment that asks math libraries for threads."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        for variable in PINNED:
            patch.setenv(variable, "4")
        Path(name, "served.tar").touch()
        flags = (f"--dataset=photos={name}/served.tar", "--workers=2", "--memory-limit=64MiB")
        with contextlib.closing(Daemon(Path(name), *flags)) as served:
            yield served
            served.stop()


def test_it_imports_no_heavy_library(idle):
    with open(f"/proc/{idle.pid}/maps") as file:
        maps = file.read()
    assert "zmq" in maps  # the test can see libraries at all
    for library in ("llvmlite", "libLLVM", "numba", "torch", "arrow", "simplejpeg"):
        assert library not in maps, library


def test_no_module_of_the_daemon_imports_a_heavy_library(loaded_by):
    modules = "daemon.daemon", "daemon.supervisor", "daemon.broker", "commands.serve_command"
    code = "import " + ", ".join(f"stoker.server.{name}" for name in modules)
    heavy = "numba", "llvmlite", "torch", "pyarrow", "simplejpeg", "PIL", "cv2"
    assert loaded_by(code, *heavy, "http.server", "prometheus_client", "asyncio", "ssl") == set()


def test_math_libraries_start_no_threads_in_the_daemon(idle):
    """OpenBLAS would start one for every other CPU, unless the environment says otherwise."""
    names = thread_names(idle.pid)
    own = [name for name in names if not name.startswith("ZMQbg")]
    assert len(own) == len(["main", "stoker-log", "stoker-reserver"]), names


def thread_names(pid: int) -> list[str]:
    """Names of a process's threads, as soon as both of ZeroMQ's have named themselves."""
    tasks = Path(f"/proc/{pid}/task")
    deadline = time.monotonic() + 20
    while True:
        names = [(task / "comm").read_text().strip() for task in tasks.iterdir()]
        if sum(name.startswith("ZMQbg") for name in names) >= len(["Reaper", "IO"]):
            return names
        assert time.monotonic() < deadline, names
        os.sched_yield()


def test_metrics_over_http(serve):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    served = serve(f"--metrics-address={port}", warm=True)
    base = f"http://127.0.0.1:{port}"
    with urllib.request.urlopen(f"{base}/readyz", timeout=20) as answer:
        assert answer.read() == b"ready\n"
    with urllib.request.urlopen(f"{base}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    assert 'stoker_build_info{version="0.1.0"} 1.0' in text
    assert "stoker_loop_turn_seconds_bucket" in text
    assert served.stop() == 0
    exported = dict(re.findall(r"^# HELP (\w+) (.*)$", text, re.MULTILINE))
    documented = metrics_of(PAGE.read_text())
    assert sorted(set(documented)) == sorted(exported)
    assert len(documented) == len(exported), "each in one row"
    assert set(HELP) <= {name.removeprefix("stoker_") for name in exported}
    for name, text in exported.items():
        assert len(text.split()) > 2, name


def metrics_of(page: str) -> list[str]:
    """The names in the first columns of the tables of metrics."""
    tables = page.partition("\n## Metrics\n")[2]
    rows = re.findall(r"^\| (`(?:stoker|process)_[^|]*)\|", tables, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def test_an_unread_standard_error_hangs_nothing(folder):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writing, True)
    try:
        (folder / "served.tar").touch()
        served_tar = f"--dataset=photos={folder}/served.tar"
        flags = (served_tar, "--workers=1", "--memory-limit=1MiB", "--log-level=debug")
        with contextlib.closing(Daemon(folder, *flags, stderr=writing, warm=True)) as served:
            assert served.ready == {"address": served.address}
            assert served.stop() == 0
    finally:
        os.close(reading)
        os.close(writing)


def test_a_ready_descriptor_that_is_none(serve, folder):
    served = serve("--ready-fd=99", warm=True)  # the flag that comes last holds
    assert served.ready is None
    assert served.wait() == 2
    errors = served.log.read_text()
    assert "stoker: --ready-fd 99: Bad file descriptor; pass the number of an open" in errors
    assert not (folder / "run").exists()


def test_a_file_in_the_place_of_the_lock_is_left_alone(serve, folder):
    (folder / "run").mkdir()
    lock = folder / "run" / "s.sock.lock"
    lock.write_text("precious")
    served = serve(warm=True)
    assert served.ready["error"][:2] == [
        "usage",
        f"{lock} exists and is not the lock of a daemon; move it away or choose another address",
    ]
    assert served.wait() == 2
    assert lock.read_text() == "precious"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("file/kernels", "cannot be used (Not a directory): choose another folder with daemon.c"),
        ("open", "that others cannot write, got owner 0, mode drwxrwxrwx: machine code is loaded"),
    ],
)
def test_a_folder_of_caches_that_is_named_and_cannot_be_used(serve, folder, place, message):
    """The default folder has a substitute; see tests/jit."""
    (folder / "file").touch()
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    (folder / "stoker.toml").write_text(f"[daemon]\ncache_root = '{folder}/{place}'\n")
    served = serve(f"--config={folder}/stoker.toml", warm=True)
    code, said, _ = served.ready["error"]
    assert code == "setup"
    assert f"kernel cache {folder}/{place}: " in said
    assert message.replace("owner 0", f"owner {os.geteuid()}") in said
    assert served.wait() == 1
