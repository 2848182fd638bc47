"""Metrics: a snapshot becomes families; the endpoint answers, and tells hanging from healthy."""

import contextlib
import http.client
import socket
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stoker.protocol.errors import ConfigError, ResourceError
from stoker.server.daemon import metrics
from stoker.server.daemon.loop import BUCKETS_S, TurnTimes
from stoker.server.daemon.metrics import Endpoint, host_and_port
from stoker.server.daemon.snapshot import Snapshot


def snapshot(**changes) -> Snapshot:
    turns = TurnTimes()
    turns.counts[0], turns.counts[-1], turns.total_s = 3, 1, 2.5
    fields = {
        "now": time.monotonic(), "ready": True, "turns": turns,
        "counters": {"rows_total": 17, "sessions": 2, "memory_granted_bytes": 4096},
        **changes,
    }  # fmt: skip
    return Snapshot(**fields)


@pytest.fixture
def serving():
    with contextlib.ExitStack() as stack:

        def begin(found: Snapshot):
            endpoint = Endpoint("127.0.0.1:0", lambda: found)
            stack.callback(endpoint.close)

            def get(path: str) -> tuple[int, str]:
                connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=20)
                with contextlib.closing(connection):
                    connection.request("GET", path)
                    answer = connection.getresponse()
                    return answer.status, answer.read().decode()

            return get

        yield begin


def test_every_counter_is_exported_under_its_kind(serving):
    status, text = serving(snapshot())("/metrics?x=1")
    assert status == 200
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["stoker_rows"].type == "counter"
    assert families["stoker_rows"].samples[0].value == 17
    assert families["stoker_sessions"].type == "gauge"
    assert families["stoker_memory_granted_bytes"].samples[0].value == 4096
    buckets = {s.labels.get("le"): s.value for s in families["stoker_loop_turn_seconds"].samples}
    assert buckets[str(BUCKETS_S[0])] == 3
    assert buckets[str(BUCKETS_S[-1])] == 3
    assert buckets["+Inf"] == 4
    assert all(name.startswith("stoker_") for name in families)


def test_health(serving):
    get = serving(snapshot())
    assert get("/livez") == (200, "live\n")
    assert get("/readyz") == (200, "ready\n")
    assert get("/") == (404, "try /metrics, /livez, /readyz\n")


def test_a_stopping_daemon_is_not_ready_and_a_hanging_one_not_alive(serving):
    get = serving(snapshot(ready=False, now=time.monotonic() - 60))
    status, text = get("/livez")
    assert (status, text.startswith("the loop has been hanging for 60.")) == (503, True)
    assert get("/readyz") == (503, "shutting down\n")


def test_idle_connections_lock_nobody_out_for_long(serving, monkeypatch):
    monkeypatch.setattr(metrics, "MAX_REQUESTS", 2)
    endpoint = Endpoint("127.0.0.1:0", snapshot)
    idle = []
    try:
        address = ("127.0.0.1", endpoint.port)
        idle.extend(socket.create_connection(address, timeout=20) for _ in range(4))
        assert idle[3].recv(1) == b""  # beyond the bound: closed at once
    finally:
        for sock in idle:
            sock.close()
        endpoint.close()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("9471", ("127.0.0.1", 9471)),
        (":9471", ("127.0.0.1", 9471)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:1", ("::1", 1)),
    ],
)
def test_addresses(address, expected):
    assert host_and_port(address) == expected


def test_what_is_no_address():
    with pytest.raises(ConfigError) as caught:
        host_and_port("localhost:99999")
    assert caught.value.message == (
        "metrics.address: expected host:port or a port, got 'localhost:99999'"
    )


def test_a_taken_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ResourceError) as caught:
            Endpoint(str(port), snapshot)
    assert caught.value.message == (
        f"metrics.address 127.0.0.1:{port}: Address already in use; choose a free port of this host"
    )


def test_turn_times_count_every_turn_once():
    turns = TurnTimes()
    for _ in range(100):
        turns.begin()
        turns.end()
    assert sum(turns.counts) == 100
    assert 0 < turns.max_s <= turns.total_s
    assert turns.copy() == TurnTimes(
        turns.counts, turns.total_s, turns.max_s, turns.max_cpu_s, turns.slow
    )
