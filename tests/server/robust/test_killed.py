"""SIGKILL of everything, at moments when other processes than workers are alive.

`tests/torture/test_endurance.py` does it with workers and trainings alone. Files in the file
system are all that a killed daemon can leave: two sockets and their lock, or the folder of a
private daemon. Nobody is left who could remove them, and the next start needs no clean-up: it
takes the lock, which the kernel has released, replaces the sockets, and removes the folder. The
lock's file must stay as long as its sockets, because a second file of that name would be a second
lock.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
from pathlib import Path

import pytest
from daemons import children, descendants, state
from hosts import free_port, make_keys
from warm import Script

from stoker.client import Connection, Loader

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_private_daemons")]
HERE = Path(__file__).parent
PATIENCE_S = 60.0


@contextlib.contextmanager
def training(kind, where):
    """A training that waits to be killed: its process, and the private daemons that it started."""
    with Script(HERE / "killed.py", kind, where, stdout=subprocess.PIPE) as process:
        try:
            assert select.select([process.stdout], [], [], PATIENCE_S)[0]
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def kill(pids) -> None:
    """Kill all, and wait until all are gone."""
    handles = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself
            handles.append(os.pidfd_open(pid))
    try:
        for handle in handles:
            with contextlib.suppress(ProcessLookupError):  # it died with another one
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        for handle in handles:
            assert select.select([handle], [], [], PATIENCE_S)[0]
    finally:
        for handle in handles:
            os.close(handle)


def steps(batches) -> list[int]:
    with batches:
        return [batch.step for batch in batches]


@pytest.mark.parametrize("kind", [pytest.param("builder", marks=pytest.mark.as_a_user), "replayer"])
def test_killed_with_a_builder_or_a_replayer_nothing_is_left(serve, loader, folder, kind, wait_for):
    before = set(os.listdir("/dev/shm"))
    settings = {"STOKER_TESTING_FAIL_POINTS": "replayer.start:stop:1"}
    daemon = serve(environment=settings, warm=True)
    steps(loader(daemon))
    (template,) = children(daemon.pid)
    with training(kind, daemon.address) as (process, _):
        wait_for(lambda: len(children(template)) == 3)
        if kind == "replayer":  # not the builder before it, which may end at any time
            wait_for(lambda: any(state(child) == "T" for child in children(template)))
        kill([daemon.pid, process.pid, *descendants(daemon.pid)])
    daemon.wait()
    assert set(os.listdir("/dev/shm")) <= before
    again = serve(environment={"STOKER_TESTING_FAIL_POINTS": ""}, warm=True)
    assert steps(loader(again)) == [0, 1]
    assert again.stop() == 0
    assert list(folder.glob("*.sock*")) == []


def test_killed_with_tcp_and_keys_nothing_is_left(serve, folder):
    make_keys(folder)
    port = free_port()
    flags = [f"--tcp=tcp://127.0.0.1:{port}", f"--key={folder}/daemon.key"]
    flags.append(f"--clients={folder}/clients")
    keys = {
        "key": str(folder / "client.key"),
        "daemon_key": (folder / "daemon.key.pub").read_text().split()[0],
    }
    where = {"address": f"tcp://127.0.0.1:{port}", **keys}
    daemon = serve(*flags, warm=True)
    with training("tcp", json.dumps(where)) as (process, _):
        kill([daemon.pid, process.pid, *descendants(daemon.pid)])
    daemon.wait()
    again = serve(*flags, warm=True)
    loader = Loader(
        where["address"], dataset="small", pipeline="labels", batch_size=5, device="numpy",
        connection=Connection(**keys),
    )  # fmt: skip
    assert steps(loader) == [0, 1]
    assert again.stop() == 0
    assert list(folder.glob("*.sock*")) == []


@pytest.mark.as_a_user
def test_a_private_daemon_killed_with_its_training_leaves_a_folder_for_the_next(
    folder, small_dataset, monkeypatch
):
    run = folder / "run"
    run.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    monkeypatch.syspath_prepend(str(HERE))
    where = json.dumps({"address": str(small_dataset), "workers": 1})
    with training("private", where) as (process, (daemon,)):
        kill([process.pid, daemon, *descendants(daemon)])
    (left,) = run.iterdir()
    with Loader(
        str(small_dataset), pipeline="robust_pipelines:labels", batch_size=5, device="numpy",
        workers=1,
    ) as batches:  # fmt: skip
        assert [batch.step for batch in batches] == [0, 1]
        assert not left.exists()
    assert list(run.iterdir()) == []
