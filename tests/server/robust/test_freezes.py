"""Processes that stop: workers, the template; the streams of clients go on."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from daemons import children

from stoker.protocol.errors import ResourceError

pytestmark = pytest.mark.slow


def works(pid):
    """Return whether a process is a worker that has the memory of a stream, and so may get work."""
    try:
        return "memfd:stoker-slab" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def forks(daemon, count, read, known=frozenset()):
    """Read batches until the template has that number of new children, all at work; return them.

    A worker gets the memory with its first work, so an idle worker does not have it. One that is
    killed is a child until it has ended, while the first of the next already work.
    """
    deadline = time.monotonic() + 60
    while True:
        found = {child for parent in children(daemon.pid) for child in children(parent)}
        if len(found) == count and found.isdisjoint(known) and all(map(works, found)):
            return found
        assert time.monotonic() < deadline, found
        read()


@pytest.mark.as_a_user
def test_a_pool_that_freezes_again_and_again_is_replaced_and_its_work_repeated(
    serve, loader, monkeypatch
):
    monkeypatch.setenv("STOKER_WORKERS_CLAIM_DEADLINE_S", "3")
    daemon = serve(warm=True)
    places = []
    with loader(daemon, prefetch=4) as batches:

        def read() -> None:
            places.extend((batch.epoch, batch.step) for batch in batches)

        read()
        for _ in range(3):
            workers = forks(daemon, 2, read)
            for worker in workers:
                os.kill(worker, signal.SIGSTOP)
            for _ in range(4):  # more than what was prefetched
                read()
            forks(daemon, 2, read, known=workers)
    assert places == [divmod(number, 2) for number in range(len(places))]


@pytest.mark.as_a_user
def test_a_template_that_freezes_is_replaced_within_its_deadline(serve, loader, monkeypatch):
    monkeypatch.setenv("STOKER_WORKERS_START_DEADLINE_S", "40")
    daemon = serve(warm=True)
    with loader(daemon) as first:
        next(iter(first))
        (template,) = children(daemon.pid)
        os.kill(template, signal.SIGSTOP)
        with loader(daemon, "slowly", timeout_s=60.0) as second:
            assert [batch.step for batch in second] == [0, 1]
        assert [batch.epoch for batch in first] == [1, 1]
    daemon.logged("did not fork within 20 s")


@pytest.mark.as_a_user
def test_workers_that_are_killed_while_they_start_are_started_again(serve, loader):
    daemon = serve(warm=True)
    stop = threading.Event()

    def kill() -> None:
        """Kill each worker as soon as it is seen, for a while."""
        for _ in range(12):
            for parent in children(daemon.pid):
                for child in children(parent):
                    os.kill(child, signal.SIGKILL)
            stop.wait(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    with loader(daemon) as batches:
        assert [batch.step for batch in batches] == [0, 1]
    killer.join()
    daemon.logged("worker_down")


@pytest.mark.as_a_user
def test_a_template_that_cannot_start_is_reported_before_the_daemon_listens(serve, folder):
    (folder / "kernels").write_text("not a folder")
    daemon = serve(environment={"STOKER_DAEMON_CACHE_ROOT": str(folder / "kernels" / "in")})
    code, message, _ = daemon.ready["error"]
    assert code == "setup"
    assert "the template process cannot start: SetupError: kernel cache" in message
    assert daemon.wait() == 1
    daemon.logged("SetupError: kernel cache")


def test_a_template_without_memory_is_reported_too(serve):
    daemon = serve(prefix=["prlimit", f"--as={300 * 2**20}"])
    code, message, _ = daemon.ready["error"]
    assert code == "resource"
    assert "the template process" in message
    assert "no worker can be started without it" in message
    assert daemon.wait() == 75


def test_a_template_that_cannot_start_again_is_an_error_for_clients(serve, loader, folder):
    """The error is the template's, and not one about the pipeline."""
    kernels = folder / "kernels"
    settings = {
        "STOKER_DAEMON_CACHE_ROOT": str(kernels / "in"),
        "STOKER_WORKERS_START_DEADLINE_S": "20",
    }
    daemon = serve(environment=settings, warm=True)
    kernels.rename(folder / "gone")
    kernels.write_text("not a folder")
    (template,) = children(daemon.pid)
    os.kill(template, signal.SIGKILL)
    with pytest.raises(ResourceError, match="cannot start: SetupError: kernel cache"):
        loader(daemon)
