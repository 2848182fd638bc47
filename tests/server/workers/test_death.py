"""Children are found, and groups ended, under any name that a process gives itself."""

import os
import subprocess
from pathlib import Path

import pytest

from stoker.server.workers.death import children, end_group, stat_of

RENAMED = r"printf 'a) Z 1 (\303' > /proc/self/comm; echo done; read line"
"""Its name looks like the end of a name, and is cut inside of a character, as setproctitle does."""


@pytest.fixture
def child():
    """A shell with this name, which leads a group."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["sh", "-c", RENAMED], process_group=0, **pipes) as process:
        assert process.stdout.readline() == b"done\n"
        assert Path(f"/proc/{process.pid}/comm").read_bytes() == b"a) Z 1 (\xc3\n"
        yield process
        process.kill()


def test_a_name_that_is_not_utf_8(child):
    state, parent, *_ = stat_of(child.pid)
    assert state in (b"R", b"S")
    assert int(parent) == os.getpid()
    assert child.pid in children()


def test_the_group_of_a_leader_with_such_a_name(child):
    other = subprocess.Popen(["cat"], stdin=subprocess.PIPE, process_group=child.pid)
    with other:
        end_group(child.pid)  # the leader lives: the pid belongs to another process by now
        assert other.poll() is None
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        end_group(child.pid)
        assert other.wait(20) == -9


def test_no_such_process(child):
    child.kill()
    child.wait()
    with pytest.raises(FileNotFoundError):
        stat_of(child.pid)
    assert child.pid not in children()
