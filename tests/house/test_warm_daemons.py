"""Daemons and scripts that tests fork from a warm process are like those that are executed."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import starts
import warm
from daemons import Daemon, children, serving
from warm import Forked, PrivateSubprocess, Script, forks, zygote

from stoker.client import Loader
from stoker.client.private import private_daemon as private
from stoker.dataset import schema, write
from stoker.pipeline import pipeline
from stoker.protocol.digest import batch_digest

pytestmark = pytest.mark.slow


@pipeline
def numbers(sample):
    return {"value": sample.value}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with a dataset, and a setting in the environment."""
    rows = ({"value": np.float32(number / 7)} for number in range(40))
    write(tmp_path / "packed", [schema.scalar("value", "float32")], rows)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STOKER_WORKERS_COUNT", "2")
    return tmp_path


def life(folder, *, warm: bool) -> dict[str, object]:
    """The visible traits of a daemon from its start to its end."""
    flags = "--dataset=numbers=packed", "--memory-limit=64MiB", "--op-module=*"
    with contextlib.closing(Daemon(folder, *flags, warm=warm)) as served:
        assert isinstance(served.process, Forked if warm else subprocess.Popen)
        with Loader(served.address, pipeline=numbers, batch_size=8, device="numpy") as loader:
            digests = [batch_digest(b, b.epoch, b.step) for b in loader]
            (template,) = children(served.pid)
            workers = without_builder(template)
        seen = {
            "ready": served.ready,
            "digests": digests,
            "workers": workers,
            "session": os.getsid(served.pid) == os.getsid(0),
            "descriptors": open_files(served.pid),
            "code": served.stop(signal.SIGTERM),
            "template is gone": not os.path.exists(f"/proc/{template}"),
        }
        lines = served.log.read_text().splitlines()
    events = {line.split()[3] for line in lines}
    return seen | {"log": events & {"listening", "opened", "session_ended", "stopping", "stopped"}}


def without_builder(template: int) -> int:
    """Return the number of a template's children after the builder of the stream has ended."""
    pause, deadline = threading.Event(), time.monotonic() + 30
    while (found := len(children(template))) > 2 and time.monotonic() < deadline:
        pause.wait(0.01)
    return found


def open_files(pid: int) -> list[str]:
    """Open files of a process, by kind, except slabs, which are freed soon after use."""
    folder, found = f"/proc/{pid}/fd", []
    for number in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(f"{folder}/{number}"))
    plain = [re.sub(r"log-\w+|\d+", "N", name) for name in found]
    return sorted({name for name in plain if "stoker-slab" not in name})


def test_a_forked_daemon_is_like_an_executed_one(folder):
    executed, forked = life(folder, warm=False), life(folder, warm=True)
    assert executed["code"] == 0
    assert len(executed["digests"]) == 5
    assert executed["workers"] == 2
    assert len(executed["log"]) == 5
    assert forked == executed


@pytest.mark.parametrize("warm", [False, True])
def test_exit_codes_and_errors(folder, warm):
    for number in (signal.SIGKILL, signal.SIGSTOP):
        with contextlib.closing(Daemon(folder, "--dataset=numbers=packed", warm=warm)) as served:
            assert served.process.poll() is None
            os.kill(served.pid, number)
            with (
                pytest.raises(subprocess.TimeoutExpired)
                if number == signal.SIGSTOP
                else (contextlib.nullcontext())
            ):
                assert served.process.wait(0.2 if number == signal.SIGSTOP else 20) == -9
    with contextlib.closing(Daemon(folder, "--dataset=numbers=nowhere", warm=warm)) as served:
        assert "nowhere" in served.ready["error"][1]
        assert served.wait() == 78
        assert served.log.read_text().startswith("stoker: ")
    with contextlib.closing(Daemon(folder, "--nonsense", warm=warm)) as served:
        assert (served.ready, served.wait()) == (None, 2)


def test_other_starts_are_executed(folder, monkeypatch):
    """A fork cannot take over variables of the interpreter, another user or another limit."""
    zygote(os.environ)  # it runs with the variables as they are before
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    with contextlib.closing(Daemon(folder, "--dataset=numbers=packed", warm=True)) as served:
        assert isinstance(served.process, subprocess.Popen)


def test_the_first_test_leaves_no_folder_behind(folder, monkeypatch):
    """What it sets for its own processes is not searched by those of later tests."""
    (folder / "own").mkdir()
    (folder / "own" / "of_one_test.py").write_text("")
    warm.close()
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder / "own"))
        with Script("-c", "import of_one_test") as first:
            assert first.wait(60) == 0
        with contextlib.closing(Daemon(folder, "--dataset=numbers=packed", warm=True)) as served:
            assert isinstance(served.process, subprocess.Popen)
    with Script("-c", "import of_one_test", stderr=subprocess.PIPE) as later:
        assert "No module named 'of_one_test'" in later.communicate(timeout=60)[1]
    with contextlib.closing(Daemon(folder, "--dataset=numbers=packed", warm=True)) as served:
        assert isinstance(served.process, Forked)


@pytest.mark.as_a_user
def test_as_a_user_all_is_executed_and_nothing_replaced(folder):
    assert private.subprocess is subprocess
    with serving(folder, "--dataset=numbers=packed") as served:
        assert isinstance(served.process, subprocess.Popen)


def test_a_daemon_that_was_forked_for_others_fails_a_test_as_a_user(folder, monkeypatch, request):
    with serving(folder, "--dataset=numbers=packed") as served:
        monkeypatch.setattr(forks, "allowed", False)
        with pytest.raises(pytest.fail.Exception, match=rf"runs forked daemons \({served.pid}\)"):
            starts.pytest_runtest_call(request.node)


@pytest.mark.parametrize("way", [subprocess, PrivateSubprocess])
def test_a_private_daemon_leads_its_session_and_ends_with_its_loader(folder, monkeypatch, way):
    monkeypatch.setattr(private, "subprocess", way)
    with Loader("packed", pipeline=numbers, batch_size=8, device="numpy", workers=1) as loader:
        (child,) = next(iter(private._children.values()))
        assert isinstance(child, Forked if way is PrivateSubprocess else subprocess.Popen)
        assert os.getsid(child.pid) == child.pid
        assert len(list(loader)) == 5
    assert child.wait(20) == 0


SEEN = """
import os, sys
name = __name__
class Local: pass
print(name, sys.argv[1:], sys.path[0], os.getcwd(), os.environ.get("SEEN"), Local.__module__,
      os.getppid() != 1, "a_module" in sys.modules, flush=True)
import a_module
for line in sys.stdin:
    print(line.strip().upper())
print("to the other", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("kind", ["code", "file"])
def test_a_forked_script_is_like_an_executed_one(folder, kind):
    (folder / "modules").mkdir()
    (folder / "modules" / "a_module.py").write_text("")
    (folder / "script.py").write_text(SEEN)
    words = ["-c", SEEN, "3", "x"] if kind == "code" else [str(folder / "script.py"), "3", "x"]
    options = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "env": {**os.environ, "SEEN": "1", "PYTHONPATH": str(folder / "modules")},
        "cwd": folder / "modules",
    }
    seen = []
    for _ in range(2):  # what one script imports or defines, the next one does not find
        for process in (
            subprocess.Popen([sys.executable, *words], **options),
            Script(*words, **options),
        ):
            with process:
                out, err = process.communicate("one\ntwo\n", timeout=60)
                seen.append((out, err, process.returncode, process.poll()))
    assert seen[0][0].startswith("__main__ ['3', 'x']")
    assert seen == [seen[0]] * 4


ENTERS = """
import sys, tempfile
import zygote
tempfile.gettempdir()  # as a module that scripts share may do when it is imported
environment = {"TMPDIR": sys.argv[1]}
request = {"session": False, "descriptors": [0, 1, 2], "folder": "/", "environment": environment}
zygote.enter(request, [0, 1, 2])
print(tempfile.gettempdir())
"""


def test_a_forked_script_has_the_temporary_folder_of_its_own_environment(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", ENTERS, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.path.dirname(warm.__file__)},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == f"{tmp_path}\n"


def test_how_a_forked_script_ends():
    with Script("-c", "1 / 0", stderr=subprocess.PIPE) as broken:
        assert broken.communicate(timeout=60)[1].endswith("ZeroDivisionError: division by zero\n")
    assert broken.returncode == 1
    with Script("-c", "import select; select.select([], [], [])") as endless:
        with pytest.raises(subprocess.TimeoutExpired):
            endless.wait(0.1)
        endless.kill()
        assert endless.wait(60) == -9
    with Script("-c", "print('seen')", imports=["decimal"], stdout=subprocess.PIPE) as quick:
        assert quick.stdout.readline() == "seen\n"
    assert quick.returncode == 0


LOADS = """
import os
import warm
from stoker.client import Loader
from stoker.client.private import private_daemon as private
from stoker.pipeline import pipeline

@pipeline
def numbers(sample):
    return {"value": sample.value}

with Loader("packed", pipeline=numbers, batch_size=8, device="numpy", workers=1) as loader:
    (child,) = next(iter(private._children.values()))
    print(type(child).__name__, os.getsid(child.pid) == child.pid, len(list(loader)))
print(child.wait(20))
zygote = warm.zygote(os.environ)
changes = {}, {"XDG_CACHE_HOME": "elsewhere"}, {"PYTHONHASHSEED": "7"}
print(*(warm._fits(zygote, {**os.environ, **changed}) for changed in changes))
"""


def test_a_script_forks_its_daemons_too(folder):
    """Unless they have another cache, or what a fork cannot take over."""
    with Script("-c", LOADS, stdout=subprocess.PIPE, daemons=True) as script:
        found = script.communicate(timeout=60)[0].splitlines()
    assert found == ["Forked True 5", "0", "True False False"]
    assert script.returncode == 0
