"""Waiting for another process that makes the same index."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.dataset.packing import index_lock
from stoker.dataset.packing.index_lock import take_lock
from stoker.protocol.errors import ResourceError

HOLDER = """
import os, sys, time
from pathlib import Path
from stoker.dataset.packing.index_lock import take_lock
path, work = map(Path, sys.argv[1:])
take_lock(os.open(path, os.O_RDWR | os.O_CREAT), path, work)
print("holds", flush=True)
for line in sys.stdin:
    (work / line.strip()).write_bytes(b"some")
    print("wrote", flush=True)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that has the lock; it writes a file into the work folder on request."""
    (tmp_path / "work").mkdir()
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock"), str(tmp_path / "work")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "holds\n"
        yield process
        process.kill()


@pytest.fixture
def descriptor(tmp_path):
    number = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    yield number
    os.close(number)


def test_the_lock_of_a_killed_process_is_free(holder, descriptor, tmp_path):
    holder.kill()
    take_lock(descriptor, tmp_path / "lock", tmp_path / "work")
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_process_without_progress_is_named(holder, descriptor, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(index_lock, "STALLED_S", 0.3)
    monkeypatch.setattr(index_lock, "QUIET_S", 0.0)
    holder.send_signal(signal.SIGSTOP)
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(ResourceError, match=f"process {holder.pid} holds .*no progress") as error,
    ):
        take_lock(descriptor, tmp_path / "lock", tmp_path / "work")
    assert error.value.details["path"] == str(tmp_path / "lock")
    assert f"process {holder.pid} makes the same index" in caplog.text


def test_others_wait_while_there_is_progress(holder, descriptor, tmp_path, monkeypatch):
    """Each file of the holder restarts the wait, and the holder's caller gets its progress."""
    monkeypatch.setattr(index_lock, "STALLED_S", 60.0)
    seen = []

    def waiting() -> None:
        seen.append(sorted(Path(tmp_path / "work").iterdir()))
        if len(seen) < 3:
            write()
        else:
            holder.kill()

    def write() -> None:
        holder.stdin.write(f"file-{len(seen)}\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "wrote\n"

    real, first = index_lock._try, []

    def trying(number: int) -> bool:
        if not first:
            first.append(True)
            write()
            return False
        return real(number)

    monkeypatch.setattr(index_lock, "_try", trying)
    take_lock(descriptor, tmp_path / "lock", tmp_path / "work", waiting)
    assert [len(files) for files in seen] == [1, 2, 3]
