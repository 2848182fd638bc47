"""Clients that are killed in the middle of their handshake leave nothing in the daemon."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from daemons import children

from stoker.protocol.digest import batch_digest

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
POINTS = ["welcome", "attached", "building", "opened"]
KEPT = ["sessions", "streams", "groups", "builds", "memory_used_bytes", "memory_granted_bytes"]


@contextlib.contextmanager
def handshaking(daemon):
    """Clients that have come to their points, and are killed in the end: {point: pid}."""
    script = str(Path(__file__).with_name("handshake.py"))
    command = [sys.executable, script, daemon.address, *POINTS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as clients:
        stopped: dict[str, int] = {}
        try:
            while len(stopped) < len(POINTS):
                assert select.select([clients.stdout], [], [], PATIENCE_S)[0], stopped
                point, pid = clients.stdout.readline().split()
                stopped[point.decode()] = int(pid)
            yield stopped
        finally:
            for pid in children(clients.pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.as_a_user
def test_clients_killed_in_the_handshake_leave_nothing_and_a_neighbor_notices_nothing(
    serve, loader, expected, counters, wait_for
):
    """At each of four points: WELCOME without ATTACH, ATTACH, OPEN during a build, OPENED."""
    daemon = serve(warm=True)

    def used() -> list[float]:
        """Everything that the daemon holds for clients; its descriptors and its children last."""
        found = counters(daemon)
        below = [child for parent in children(daemon.pid) for child in children(parent)]
        return [*(found[name] for name in KEPT), found["descriptors"], len(below)]

    with loader(daemon) as neighbor:
        digests = [batch_digest(batch, batch.epoch, batch.step) for batch in neighbor]
        before = used()
        with handshaking(daemon) as stopped:
            wait_for(lambda: used()[3] == before[3] + 1)  # the builder runs
            during = used()
            digests += [batch_digest(batch, batch.epoch, batch.step) for batch in neighbor]
        digests += [batch_digest(batch, batch.epoch, batch.step) for batch in neighbor]
        wait_for(lambda: used() == before)
        digests += [batch_digest(batch, batch.epoch, batch.step) for batch in neighbor]
    assert sorted(stopped) == sorted(POINTS)
    assert during[0] == before[0] + len(POINTS)
    assert during[4] > before[4], "no memory is reserved"
    assert digests == expected("labels", 4)
    log = daemon.log.read_text()
    assert log.count("session_ended") >= len(POINTS)
    assert "worker_down" not in log
