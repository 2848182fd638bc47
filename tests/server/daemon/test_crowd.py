"""More clients at once than the daemon greets: each asks again until it is served or too late."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from stoker.client import Connection, Loader
from stoker.client.client_session import ClientSession
from stoker.client.retrying import connect_with_retries
from stoker.protocol.errors import TryAgainError
from stoker.server.daemon import sidesocket

CROWD = 16
PATIENCE_S = 240.0


def open_loader(address: str, connect_timeout_s: float = PATIENCE_S) -> Loader:
    return Loader(
        address, dataset="photos", pipeline="train", batch_size=10, device="numpy",
        connection=Connection(connect_timeout_s=connect_timeout_s),
        )  # fmt: skip


def greeted(address: str) -> bool:
    session = connect_with_retries(lambda left_s: ClientSession(address, left_s), PATIENCE_S)
    with contextlib.closing(session):
        return True


def test_a_crowd_asks_again_until_there_is_room(start, monkeypatch):
    monkeypatch.setattr(sidesocket, "MAX_HALF_OPEN", 1)
    running = start()
    with ThreadPoolExecutor(CROWD) as threads:
        served = list(threads.map(greeted, [running.address] * CROWD))
    assert served == [True] * CROWD
    assert running.counter("refused_connections_total") > 0


def test_a_full_daemon_is_asked_again_until_the_deadline(start, eventually):
    running = start(daemon__max_sessions=2)
    with open_loader(running.address) as first, open_loader(running.address):
        message = "the daemon has 2 sessions, its limit; try again later, close some, or raise"
        with pytest.raises(TryAgainError, match=message):
            open_loader(running.address, connect_timeout_s=0.5)
        before = running.counter("errors_total")
        with ThreadPoolExecutor(1) as thread:
            third = thread.submit(open_loader, running.address)
            eventually(lambda: running.counter("errors_total") > before)
            first.close()
            with third.result() as batches:
                assert next(iter(batches)).step == 0
