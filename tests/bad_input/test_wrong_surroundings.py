"""What a host gets wrong: one line with the remedy, a status that is not 0, nothing left behind.

A row for each: devices, daemons, versions, keys, ports, cache folders, sockets. Commands run in
this process, trainings and daemons in processes of their own; other tests execute them.
"""

import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import call
from daemons import Daemon
from fake_daemons import FakeDaemon
from warm import Script

from stoker.jit import diskcache

pytestmark = pytest.mark.slow
FAILED, USAGE, AWAY, CONFIGURATION = 1, 2, 75, 78
NOBODY = 65534
TRAINING = """
import sys
from stoker.client import Connection, Loader
where, device = sys.argv[1:]
Loader(where, pipeline="my:train", batch_size=1, device=device, dataset="d",
       connection=Connection(connect_timeout_s=0.2))
"""
LOCKED = """
import resource, sys
from stoker.client.page_locks import failure
resource.setrlimit(resource.RLIMIT_MEMLOCK, (2**16, 2**16))
sys.exit(failure(2**20, 2**23, "operation not supported"))
"""


def stale(path: Path, kind: int) -> None:
    """Leave a socket at which nobody listens any more."""
    with socket.socket(socket.AF_UNIX, kind) as left:
        left.bind(str(path))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file, a socket that a dead daemon left, and a folder of another user."""
    for name in ("file", "d.tar"):
        (tmp_path / name).touch()
    (tmp_path / "unknown.toml").write_text("[workers]\ncuont = 3\n")
    (tmp_path / "foreign").mkdir(mode=0o755)
    if os.geteuid() == 0:
        os.chown(tmp_path / "foreign", NOBODY, NOBODY)
    stale(tmp_path / "stale.sock", socket.SOCK_STREAM)
    stale(tmp_path / "stale.sock.fd", socket.SOCK_SEQPACKET)
    before = entries(tmp_path)
    yield tmp_path
    assert entries(tmp_path) == before, "something is left behind"


def entries(folder: Path) -> list[str]:
    """Return what is below a folder, without the logs and the inputs of a test."""
    return sorted(str(path) for path in folder.rglob("*") if not path.name.startswith("log-"))


def command(*words: str) -> Callable[[Path], tuple[int, str]]:
    """A `stoker` command; HOST is the folder of the test."""

    def run(host: Path) -> tuple[int, str]:
        code, printed, errors = call(*(word.replace("HOST", str(host)) for word in words))
        assert printed == ""
        return code, errors

    return run


def script(code: str, *words: str) -> Callable[[Path], tuple[int, str]]:
    """A training script; its last line is that of the error."""

    def run(host: Path) -> tuple[int, str]:
        given = [word.replace("HOST", str(host)) for word in words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with Script("-c", code, *given, imports=["stoker.client"], **pipes) as done:
            _, errors = done.communicate(timeout=60)
        return done.returncode, errors.splitlines()[-1] + "\n"

    return run


def training(where: str, device: str = "numpy") -> Callable[[Path], tuple[int, str]]:
    return script(TRAINING, where, device)


def serving(*flags: str, at: str = "stoker.sock") -> Callable[[Path], tuple[int, str]]:
    """A daemon that cannot start."""

    def run(host: Path) -> tuple[int, str]:
        given = (flag.replace("HOST", str(host)) for flag in flags)
        usual = ("--workers=1", "--memory-limit=8MiB", f"--dataset=d={host}/d.tar")
        daemon = Daemon(host, *usual, *given, socket=at, warm=True)
        try:
            return daemon.wait(), daemon.log.read_text()
        finally:
            daemon.close()

    return run


def port_in_use(host: Path) -> tuple[int, str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        return serving(f"--metrics-address={taken.getsockname()[1]}")(host)


def of_another_version(host: Path) -> tuple[int, str]:
    (folder := host / "fake").mkdir()
    try:
        with contextlib.closing(FakeDaemon(folder)) as daemon:
            daemon.wire = 99
            code, printed, errors = call("status", daemon.address)
        assert printed == ""
        return code, errors
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a folder away")
NO_DAEMON = "Start one with `stoker serve`"
WRONG = {
    "wrong device": (training("HOST/d", "tpu"), FAILED, "expected 'cpu', 'numpy' or 'cuda["),
    "device of others": (training("HOST/d", "mps"), FAILED, "and batch.to('mps') in the loop"),
    "no CUDA": (training("HOST/d", "cuda"), FAILED, "torch finds no CUDA device; use device='cpu'"),
    "no such CUDA device": (training("HOST/d", "cuda:7"), FAILED, "use device='cpu'"),
    "memlock too small": (script(LOCKED), FAILED, "raise the limit: ulimit -l unlimited"),
    "no daemon for a command": (command("status", "ipc://HOST/none.sock"), AWAY, NO_DAEMON),
    "no daemon for a training": (training("ipc://HOST/none.sock"), FAILED, NO_DAEMON),
    "no daemon on another host": (training("tcp://127.0.0.1:9"), FAILED, "tcp://127.0.0.1:9"),
    "another version": (of_another_version, FAILED, "use the same release of Stoker on both sides"),
    "unknown key": (command("config", "--config=HOST/unknown.toml"), CONFIGURATION,
                    "unknown key workers.cuont; did you mean count?"),
    "unknown key of a daemon": (command("serve", "--config=HOST/unknown.toml"), CONFIGURATION,
                                "unknown key workers.cuont; did you mean count?"),
    "port in use": (port_in_use, AWAY, "Address already in use"),
    "cache folder that cannot be written": (
        command("warm", "--all-ops", "--cache-root=HOST/file/in"), FAILED, "choose a writable"),
    "cache folder of another user": pytest.param(
        command("warm", "--all-ops", "--cache-root=HOST/foreign"), FAILED,
        "got owner 65534, mode drwxr-xr-x: machine code is loaded from it; choose another folder",
        marks=needs_root),
    "stale socket for a command": (command("status", "ipc://HOST/stale.sock"), AWAY, NO_DAEMON),
    "stale socket for stacks": (command("stacks", "ipc://HOST/stale.sock"), AWAY,
                                "Connection refused"),
    "stale socket for a training": (training("ipc://HOST/stale.sock"), FAILED, NO_DAEMON),
    "file where the folder of the socket belongs": (
        serving(at="file/s.sock"), FAILED, "choose a writable folder"),
}  # fmt: skip
"""What is wrong -> what runs, its status, and a part of its line."""


@pytest.mark.parametrize(("run", "status", "remedy"), WRONG.values(), ids=WRONG)
def test_it_is_one_line_with_the_remedy(host, run, status, remedy, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(diskcache, "_chosen", [*diskcache._chosen])  # `stoker warm` chooses one
    code, errors = run(host)
    assert (code, errors.count("\n")) == (status, 1), errors
    assert remedy in errors
