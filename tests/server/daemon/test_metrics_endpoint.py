"""Metrics: a snapshot becomes families; the endpoint answers, and tells hanging from healthy."""

import contextlib
import http.client
import select
import socket
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stoker.protocol import messages
from stoker.server.daemon import http_server
from stoker.server.daemon.metrics_address import host_and_port
from stoker.server.daemon.metrics_endpoint import Endpoint
from stoker.server.daemon.poller import BUCKETS_S, TurnTimes
from stoker.server.daemon.snapshot import Snapshot
from stoker.server.settings.config_types import MetricsSection


def snapshot(**changes) -> Snapshot:
    turns = TurnTimes()
    turns.counts[0], turns.counts[-1], turns.total_s = 3, 1, 2.5
    fields = {
        "now": time.monotonic(), "unready": "", "turns": turns,
        "counters": {"rows_total": 17, "sessions": 2, "memory_granted_bytes": 4096},
        **changes,
    }  # fmt: skip
    return Snapshot(**fields)


@pytest.fixture
def serving():
    with contextlib.ExitStack() as stack:

        def begin(found: Snapshot):
            endpoint = Endpoint(MetricsSection(address="0"), lambda: found)
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
    assert all(name.startswith(("stoker_", "process_")) for name in families)
    assert families["process_resident_memory_bytes"].samples[0].value > 2**20


def test_health(serving):
    get = serving(snapshot())
    assert get("/livez") == (200, "live\n")
    assert get("/readyz") == (200, "ready\n")
    assert get("/nothing") == (404, "try /, /metrics, /livez, /readyz\n")


def test_a_stopping_daemon_is_not_ready_and_a_hanging_one_not_alive(serving):
    get = serving(snapshot(unready="shutting down", now=time.monotonic() - 60))
    status, text = get("/livez")
    assert (status, text.startswith("the loop has been hanging for 60.")) == (503, True)
    assert get("/readyz") == (503, "shutting down\n")


def test_a_daemon_whose_loop_hangs_is_not_ready(serving):
    status, text = serving(snapshot(now=time.monotonic() - 60))("/readyz")
    assert (status, text.startswith("the loop has been hanging for 60.")) == (503, True)


@pytest.fixture
def endpoint():
    """An endpoint of a healthy daemon, and a function that connects to it."""
    with contextlib.ExitStack() as stack:
        made = Endpoint(MetricsSection(address="0"), snapshot)
        stack.callback(made.close)

        def connect(data: bytes = b"") -> socket.socket:
            sock = socket.create_connection(("127.0.0.1", made.port), timeout=20)
            sock.sendall(data)
            return stack.enter_context(sock)

        yield connect


def whole(sock: socket.socket) -> bytes:
    """Read to the end."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while part := sock.recv(65536):
            data += part
    return data


def test_idle_and_slow_connections_lock_nobody_out(endpoint):
    idle = [endpoint() for _ in range(4 * http_server.MAX_CONNECTIONS)]
    slow = [endpoint(b"GET /livez HT") for _ in range(4 * http_server.MAX_CONNECTIONS)]
    for _ in range(3):
        assert whole(endpoint(b"GET /livez HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\nlive\n")
    assert whole(idle[0]) == whole(slow[0]) == b""  # the oldest made room


def test_a_connection_has_a_limited_time(clock, endpoint):
    """The server looks at its clock when something comes: here, another request."""
    slow = endpoint(b"GET /livez HTTP/1.1\r\nX: ")
    assert whole(endpoint(b"GET /livez HTTP/1.1\r\n\r\n")).endswith(b"live\n")
    clock.now += http_server.REQUEST_S * 0.9
    assert whole(endpoint(b"GET /livez HTTP/1.1\r\n\r\n")).endswith(b"live\n")
    assert select.select([slow], [], [], 0) == ([], [], [])  # neither an answer nor an end
    clock.now += http_server.REQUEST_S * 0.2
    assert whole(endpoint(b"GET /livez HTTP/1.1\r\n\r\n")).endswith(b"live\n")
    assert whole(slow) == b""


@pytest.mark.parametrize(
    ("request_", "status", "body"),
    [
        (b"HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"200 OK", b""),
        (b"GET /livez?full HTTP/1.0\n\n", b"200 OK", b"live\n"),
        (b"POST /livez HTTP/1.1\r\n\r\n", b"405 Method Not Allowed", b"use GET or HEAD\n"),
        (b"\x16\x03\x01\r\n\r\n", b"400 Bad Request", b"expected METHOD PATH HTTP/VERSION\n"),
        (
            b"GET /" + b"x" * 9000,
            b"431 Request Header Fields Too Large",
            b"the head of the request is too long\n",
        ),
    ],
)
def test_what_clients_may_ask(endpoint, request_, status, body):
    head, _, found = whole(endpoint(request_)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert found == body
    if request_.startswith(b"HEAD"):
        assert b"Content-Length: 5" in head


def test_a_daemon_with_all_of_its_sessions_is_not_ready(start, connect, eventually):
    running = start(daemon__max_sessions=1, metrics__address="0")
    client = connect(running.address).hello().attach()
    eventually(lambda: running.daemon._snapshot.unready == "all 1 sessions are taken")
    client.send(messages.Close())
    eventually(lambda: running.daemon._snapshot.unready == "")


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
