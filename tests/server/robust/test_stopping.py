"""A daemon that is asked to stop while a row takes long: it drains, for a bounded time."""

import os
import re
import select
import signal
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from daemons import children, descendants

pytestmark = pytest.mark.slow

CULPRIT = 7
LONG_S = 600.0
SHORT_S = 0.5


@pytest.fixture
def draining(serve, loader, sum_of, tmp_path, wait_for):
    """A daemon that is asked to stop while a worker waits in a row: `draining(grace_s)`.

    Returns the daemon, the file that the worker waits for, a client's batch, and handles of the
    daemon's processes.
    """
    opened, handles = [], []

    def begin(grace_s):
        begun = tmp_path / "begun"
        settings = {
            "STOKER_DAEMON_GRACE_S": str(grace_s),
            "STOKER_TEST_WAIT": sum_of(CULPRIT),
            "STOKER_TEST_BEGUN": str(begun),
        }
        daemon = serve("--metrics-address=0", environment=settings, warm=True)
        batches = loader(daemon, "waits", shuffle=False, reconnect_s=None)
        opened.append(batches)
        batch = next(iter(batches))
        wait_for(begun.exists)
        handles.extend(os.pidfd_open(pid) for pid in descendants(daemon.pid))
        os.kill(daemon.pid, signal.SIGTERM)
        wait_for(lambda: "stopping" in daemon.log.read_text())
        return daemon, begun, batch, handles

    yield begin
    for batches in opened:
        batches.close()
    for handle in handles:
        os.close(handle)


def answer(daemon, path) -> tuple[int, str]:
    port = int(re.search(r"metrics_listening.*port=(\d+)", daemon.log.read_text())[1])
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=20) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def gone(handles) -> bool:
    """Return whether all of the processes end in time."""
    return all(select.select([handle], [], [], 30.0)[0] for handle in handles)


@pytest.mark.as_a_user
def test_it_is_not_ready_but_alive_until_the_row_is_done(draining, wait_for):
    daemon, begun, batch, _ = draining(LONG_S)
    assert answer(daemon, "readyz") == (503, "shutting down\n")
    assert answer(daemon, "livez") == (200, "live\n")
    assert batch.label.tolist() == [0, 1, 2, 3, 4]
    assert np.asarray(batch.image).any()
    # The other worker may be at the same image of the next epoch, and make the file once more.
    wait_for(lambda: begun.unlink(missing_ok=True) or daemon.process.poll() is not None)
    assert daemon.wait() == 0
    assert "worker_down" not in daemon.log.read_text()


def test_a_second_signal_ends_it_at_once(draining):
    daemon, begun, batch, below = draining(LONG_S)
    assert daemon.stop() == 0
    assert gone(below)
    assert begun.exists(), "the row has ended by itself"
    daemon.logged("at_once=True")
    assert batch.label.tolist() == [0, 1, 2, 3, 4]


def test_it_ends_when_the_grace_period_is_over(draining):
    asked = time.monotonic()
    daemon, begun, _, below = draining(SHORT_S)
    assert daemon.wait() == 0
    assert time.monotonic() - asked > SHORT_S
    assert gone(below)
    assert begun.exists(), "the row has ended by itself"


def test_it_is_ready_while_its_template_can_fork(serve, wait_for):
    daemon = serve("--metrics-address=0", warm=True)
    wait_for(lambda: "metrics_listening" in daemon.log.read_text())
    assert answer(daemon, "readyz") == (200, "ready\n")
    (template,) = children(daemon.pid)
    os.kill(template, signal.SIGSTOP)
    wait_for(lambda: answer(daemon, "readyz") == (503, "the template process is stopped\n"))
    assert answer(daemon, "livez") == (200, "live\n")
    os.kill(template, signal.SIGCONT)
    wait_for(lambda: answer(daemon, "readyz") == (200, "ready\n"))
