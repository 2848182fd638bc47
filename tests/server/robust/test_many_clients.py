"""Many clients at once: none is lost when all come back after a restart."""

import contextlib
import itertools
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from daemons import Restarted

from stoker.client import Connection, Loader
from stoker.protocol.digest import batch_digest

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
CLIENTS = 200
EPOCHS = 4
"""More batches than a client can have when the daemon dies."""
WAIT_S = 120.0
AT_ONCE = 100
"""Of the 128 connections that the kernel lets wait for the side socket."""


def waiting(path: str) -> int:
    """Return how many connections a socket has, accepted or not."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(f" {path}") for line in lines) - 1


def test_200_clients_come_back_after_a_restart(folder, small_dataset, expected, wait_for) -> None:
    daemon = Restarted(
        folder, f"--dataset=small={small_dataset}", "--workers=1", "--memory-limit=256MiB",
        f"--python-path={HERE}", "--pipeline=labels=robust_pipelines:labels",
    )  # fmt: skip
    reads = threading.Barrier(CLIENTS + 1)

    def train(_: int) -> list[str]:
        with Loader(
            daemon.address, dataset="small", pipeline="labels", batch_size=5, device="numpy",
            connection=Connection(reconnect_s=WAIT_S, connect_timeout_s=WAIT_S), prefetch=1,
        ) as batches:  # fmt: skip
            seen = []
            for batch in itertools.chain.from_iterable(itertools.repeat(batches, EPOCHS)):
                seen.append(batch_digest(batch, batch.epoch, batch.step))
                if len(seen) == 1:
                    reads.wait(WAIT_S)  # all are served at once
                    reads.wait(WAIT_S)  # the daemon is dead
            return seen

    with contextlib.closing(daemon), ThreadPoolExecutor(CLIENTS) as threads:
        daemon.start()
        trainings = [threads.submit(train, number) for number in range(CLIENTS)]
        reads.wait(WAIT_S)
        daemon.kill()
        daemon.start()
        os.kill(daemon.pid, signal.SIGSTOP)
        reads.wait(WAIT_S)
        wait_for(lambda: waiting(f"{folder}/stoker.sock.fd") > AT_ONCE)  # they come in one turn
        os.kill(daemon.pid, signal.SIGCONT)
        want = expected("labels", EPOCHS)
        lost = [error for training in trainings if (error := training.exception(WAIT_S))]
        assert lost == []
        assert {tuple(training.result()) for training in trainings} == {tuple(want)}
