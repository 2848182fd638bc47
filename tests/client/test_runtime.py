"""The private daemon's folder and start-up, without a daemon: locks, sweeping, failures."""

import os
import re
import stat
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import pytest

from stoker.client import Connection, Loader
from stoker.client.private import private_daemon
from stoker.client.private import runtime_folder as runtime
from stoker.client.private.runtime_folder import RuntimeFolder, base_folder, is_running
from stoker.protocol.errors import (
    AccessError,
    ConnectError,
    DatasetError,
    PeerError,
    ResourceError,
    SetupError,
    StokerError,
)
from stoker.server.commands.exit_statuses import status_of

KEY = "0123456789abcdef"

pytestmark = pytest.mark.as_a_user


def soon() -> float:
    return time.monotonic() + 10


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch, session_folder: Path):
    """A runtime folder of our own, with a short path."""
    path = session_folder / f"b{os.urandom(2).hex()}"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    yield path
    path.rmdir()  # and nothing is left in it


def test_the_folder_is_ours_alone_and_goes_with_the_last_user(base: Path) -> None:
    first, second = RuntimeFolder(KEY), RuntimeFolder(KEY)
    with first.locked(soon()):
        assert stat.S_IMODE(os.stat(first.path).st_mode) == 0o700
        first.join()
    with second.locked(soon()):
        second.join()
    with first.left(soon()) as last:
        assert not last
    assert os.path.isdir(first.path)
    with second.left(soon()) as last:
        assert last
    assert not os.path.exists(first.path)
    with second.left(soon()) as last:  # again: nothing to do
        assert not last


def test_one_at_a_time(base: Path) -> None:
    first, second = RuntimeFolder(KEY), RuntimeFolder(KEY)
    with (
        first.locked(soon()),
        pytest.raises(
            PeerError, match="for another process that is starting the private daemon in"
        ),
        second.locked(time.monotonic() - 1),
    ):
        pass
    with first.left(soon()) as last:
        assert last


def test_a_folder_removed_while_we_waited_is_made_anew(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock we got may be of a file that is gone: then it protects nothing."""
    folder = RuntimeFolder(KEY)
    original, calls = runtime._wait_for, []

    def wait(lock, deadline, path):
        original(lock, deadline, path)
        calls.append(lock)
        if len(calls) == 1:
            for name in os.listdir(path):
                os.unlink(os.path.join(path, name))
            os.rmdir(path)

    monkeypatch.setattr(runtime, "_wait_for", wait)
    with folder.locked(soon()):
        assert len(calls) == 2
        assert os.path.isdir(folder.path)
    with folder.left(soon()) as last:
        assert last


def test_a_folder_of_others_is_refused(base: Path) -> None:
    folder = RuntimeFolder(KEY)
    os.mkdir(folder.path, 0o755)
    with (
        pytest.raises(AccessError, match=r"with mode 0700, got mode drwxr-xr-x") as caught,
        folder.locked(soon()),
    ):
        pass
    assert status_of(caught.value) == 1  # trying again does not help
    os.rmdir(folder.path)
    os.symlink("/nowhere", folder.path)
    with pytest.raises(AccessError, match="got mode lrwx"), folder.locked(soon()):
        pass
    os.unlink(folder.path)


def test_what_the_killed_left_is_swept_by_the_next(base: Path) -> None:
    """A killed process loses its lock on its folder; the folder of a living one stays locked."""
    code = (
        "import os, sys, time; from stoker.client.private.runtime_folder import RuntimeFolder\n"
        "folder = RuntimeFolder(sys.argv[1])\n"
        "with folder.locked(time.monotonic() + 10): folder.join()\n"
        "folder.set_current('ipc:///x', os.getpid())\n"
        "print(folder.path, flush=True); sys.stdin.read()"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, key],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for key in ("a" * 16, "b" * 16)
    ]
    paths = [process.stdout.readline().strip() for process in processes]
    assert all(os.path.isdir(path) for path in paths)
    processes[0].kill()
    processes[0].communicate()
    folder = RuntimeFolder(KEY)
    with folder.locked(soon()):
        assert [os.path.exists(path) for path in paths] == [False, True]
    processes[1].kill()
    processes[1].communicate()
    with folder.locked(soon()):
        assert not os.path.exists(paths[1])
    with folder.left(soon()) as last:
        assert last


def test_an_unused_folder_with_a_living_daemon_stays(base: Path) -> None:
    other = RuntimeFolder("c" * 16)
    with other.locked(soon()):
        other.set_current("ipc:///x", os.getpid())
    folder = RuntimeFolder(KEY)
    with folder.locked(soon()):
        assert os.path.isdir(other.path)
    for each in (folder, other):
        with each.left(soon()) as last:
            assert last


def test_a_runtime_folder_too_deep_for_sockets_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    assert base_folder() != str(deep)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nonexistent")
    assert base_folder() != "/nonexistent"
    (tmp_path / "near").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "near")
    assert base_folder() != "near"


def test_no_folder_for_sockets_is_an_error_that_says_what_to_set(monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(SetupError, match=r"writable and short enough; set XDG_RUNTIME_DIR"):
        base_folder()


def test_without_a_folder_for_temporary_files_the_runtime_folder_is_used(monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    assert base_folder() == os.environ["XDG_RUNTIME_DIR"]


def test_zombies_do_not_run() -> None:
    assert is_running(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    child.stdout.read()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_running(child.pid)
    child.stdout.close()
    child.wait()
    assert not is_running(child.pid)


# ---------------------------------------------------------------- daemons that do not start

STAND_IN = """#!{python}
import json, os, sys
ready = int(sys.argv[sys.argv.index("--ready-fd") + 1])
open({seen!r}, "w").write(json.dumps(sys.argv[1:]))
{body}
"""


@pytest.fixture
def start(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Load from a path, with something else in the place of `python -m stoker.server serve`."""

    def run(body: str, **more) -> StokerError:
        (tmp_path / "manifest.json").touch()
        script = tmp_path / "python"
        seen = str(tmp_path / "seen")
        script.write_text(STAND_IN.format(python=sys.executable, body=body, seen=seen))
        script.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(script))
        with pytest.raises(StokerError) as caught:
            Loader(tmp_path, pipeline="m:train", batch_size=4, device="numpy", **more)
        return caught.value

    return run


def test_the_daemons_own_error_is_raised(start, tmp_path: Path) -> None:
    error = start(
        'os.write(ready, json.dumps({"error": ["dataset", "no manifest", {"n": 1}]}).encode())',
        workers=3,
    )
    assert type(error) is DatasetError
    assert error.to_record() == ("dataset", "no manifest", {"n": 1})
    command = (tmp_path / "seen").read_text()
    assert f'"--dataset", "data={tmp_path}", "--pipeline", "main=m:train"' in command
    assert '"--workers", "3"' in command
    assert '"-m", "stoker.server", "serve", "--address", "ipc://' in command
    assert '"--exit-with-last-client", "--ready-fd"' in command


def test_a_daemon_that_ends_without_a_word(start) -> None:
    error = start('sys.stderr.write("No module named typer\\n"); sys.exit(3)')
    assert type(error) is ConnectError
    assert "ended with exit code 3 before it was ready" in error.message
    assert "pip install 'stoker[server]'" in error.message
    assert error.message.endswith("the end of its log:\nNo module named typer")


def test_a_daemon_that_never_gets_ready(start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.client.private.private_daemon.START_TIMEOUT_S", 0.5)
    limits = Connection(connect_timeout_s=0.1)
    error = start("sys.stdin.read(); import signal; signal.pause()", connection=limits)
    assert type(error) is ConnectError
    assert re.search(r"the private daemon was not ready in [\d.]+ s\b", error.message)


def test_a_wait_for_the_folders_lock_takes_no_time_from_the_start(start, monkeypatch) -> None:
    """The process before this one may need all of its time; then this one starts a daemon."""
    later, original = [0.0], runtime._wait_for

    def wait(lock: int, deadline: float, path: str) -> None:
        original(lock, deadline, path)
        later[0] = private_daemon.START_TIMEOUT_S + 1

    clock = types.SimpleNamespace(monotonic=lambda: time.monotonic() + later[0])
    monkeypatch.setattr(private_daemon, "time", clock)
    monkeypatch.setattr(runtime, "_wait_for", wait)
    error = start('os.write(ready, json.dumps({"error": ["dataset", "gone", {}]}).encode())')
    assert later[0] > private_daemon.START_TIMEOUT_S
    assert error.to_record() == ("dataset", "gone", {})


def test_nonsense_instead_of_ready(start) -> None:
    error = start('os.write(ready, b"hello\\n")')
    assert type(error) is ConnectError
    assert "exit code 0 before it was ready" in error.message


def test_ready_and_gone(start) -> None:
    error = start('os.write(ready, json.dumps({"address": "x"}).encode() + b"\\n")')
    assert type(error) is ConnectError
    assert "no daemon listens at ipc://" in error.message


def test_other_codes(start) -> None:
    error = start('os.write(ready, json.dumps({"error": ["resource", "full", {}]}).encode())')
    assert type(error) is ResourceError


def test_folders_inside_of_installed_packages_are_not_those_of_users(tmp_path, monkeypatch):
    """Ray, for one, adds a folder with modules that it brings along."""
    mine, brought = tmp_path / "mine", tmp_path / "site" / "package" / "brought"
    for folder in (mine, brought):
        folder.mkdir(parents=True)
        (folder / "pytest.py").touch()  # imported here, and installed elsewhere
    python = list(dict.fromkeys(private_daemon.sysconfig.get_paths().values()))
    monkeypatch.setattr(private_daemon.sysconfig, "get_path", lambda _: str(tmp_path / "site"))
    monkeypatch.setattr(sys, "path", [*python, str(mine), str(brought)])
    with pytest.warns(UserWarning, match=f"modules of {mine} are shadowed") as warned:
        found = private_daemon.folders_of_modules()
    assert len(warned) == 1
    assert str(mine) in found
    assert str(brought) not in found
