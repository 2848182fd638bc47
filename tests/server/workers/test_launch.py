"""The template is launched ahead of the daemon's imports, and its supervisor takes it over."""

import os
import select
import signal
from pathlib import Path

import pytest

from stoker.server.daemon.launch import launch
from stoker.server.state.events import WorkerDown, WorkerUp


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


@pytest.mark.slow
def test_what_is_needed_to_launch_imports_next_to_nothing(loaded_by):
    """Each of these would be waited for before the template can begin."""
    code = (
        "import stoker.server.__main__ as main; main._application();"
        "import stoker.server.commands.serve_command"
    )
    slow = (
        "numpy",
        "zmq",
        "http.server",
        "stoker.protocol.messages",
        "stoker.server.daemon.supervisor",
    )
    assert loaded_by(code, *slow) == set()


@pytest.mark.slow
def test_a_supervisor_takes_over_and_replaces_what_was_launched(rig, kernel_cache):
    with launch(str(kernel_cache), []) as launched:
        one = rig(template=launched)
        one.supervisor.start_worker(0)
        pid = one.wait(WorkerUp).pid
        assert parent_of(pid) == launched.process.pid
        launched.process.send_signal(signal.SIGKILL)
        assert "template" in one.wait(WorkerDown).reason
        one.supervisor.start_worker(1)
        assert parent_of(one.wait(WorkerUp).pid) != launched.process.pid
        one.supervisor.close()


@pytest.mark.slow
def test_what_nobody_takes_over_ends(tmp_path):
    launched = launch(str(tmp_path), [])
    handle = os.pidfd_open(launched.process.pid)
    launched.close()
    launched.close()
    assert select.select([handle], [], [], 0)[0]
    assert launched.control.fileno() == -1
    os.close(handle)


@pytest.mark.slow
def test_workers_that_start_at_once_hold_nothing_of_each_other(rig):
    """Those that still wait to be forked have sockets in the template, which a fork would copy."""
    one = rig()
    for worker in range(3):
        one.supervisor.start_worker(worker)
    pids = [one.wait(WorkerUp, lambda up, n=worker: up.worker == n).pid for worker in range(3)]
    for pid in pids:
        held = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        ours = {os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)}
        assert sum(target.startswith("socket:") for target in held if target not in ours) == 1
