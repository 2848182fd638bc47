"""A stopped process that holds a kernel's lock delays others for a bounded time, not for ever."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
KERNEL = """
import logging, sys
sys.path.insert(0, sys.argv[1])
logging.basicConfig(level=logging.WARNING)
import users_kernel
from stoker.jit import compiled
print(compiled(users_kernel.added)(eval(sys.argv[2])))
"""
HOLDER = """
import fcntl, sys, time
files = [open(path, "a") for path in sys.argv[1:]]
for file in files:
    fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def call(folder: Path, argument: str) -> "subprocess.Popen[str]":
    """Call a kernel in a process of its own."""
    command = [sys.executable, "-c", KERNEL, str(folder), argument]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes)


def test_a_stopped_process_with_a_kernels_lock_delays_others_for_two_minutes(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "users_kernel.py").write_text(
        "from stoker.jit import kernel\n@kernel\ndef added(x):\n    return x + 29\n"
    )
    with call(tmp_path, "1") as first:
        assert first.communicate(timeout=60) == ("30\n", "")
    locks = [str(path) for path in (tmp_path / "cache").rglob("lock")]
    assert locks
    command = [sys.executable, "-c", HOLDER, *locks]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGSTOP)
        with call(tmp_path, "1.5") as second:
            out, errors = second.communicate(timeout=300)
        holder.send_signal(signal.SIGKILL)
    assert out == "30.5\n"
    assert "is locked for 120 s: compiled and not stored" in errors
