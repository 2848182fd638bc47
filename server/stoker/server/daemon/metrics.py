"""Counters for people and Prometheus, and the HTTP endpoint that serves them.

The loop publishes a `Snapshot` a few times per second by storing one reference; the endpoint's
threads read only the latest one, so the loop never waits for them and shares nothing with them.
Names: `stoker_..._total` only grow after the daemon's start, `_seconds` and `_bytes` are units, and
anything else is a gauge. STATUS carries the same numbers, without the prefix.

`/metrics` is for Prometheus. `/livez` is 200 while the loop turns (503 if it has not for `LIVE_S`).
`/readyz` is 200 while new clients are welcome (503 after a stop was requested). At most
`MAX_REQUESTS` requests are answered at a time, each within `REQUEST_S`.

The daemon imports this module only if metrics are enabled, because it brings an HTTP server along.
"""

import contextlib
import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from stoker.protocol import version
from stoker.protocol.errors import ConfigError, ResourceError
from stoker.server.daemon.loop import BUCKETS_S, TurnTimes
from stoker.server.daemon.snapshot import Snapshot

PREFIX: Final = "stoker_"
HELP: Final = {
    "unexpected_errors_total": "Exceptions in the daemon that nobody expected, each a fault of the"
    " daemon: it ended the connection, process or session concerned (log: unexpected_error).",
    "refused_messages_total": "Messages that broke the protocol.",
    "refused_connections_total": "Connections to the side socket that were refused.",
}
"""What a metric means, where its name does not say it."""
LIVE_S: Final = 5.0
REQUEST_S: Final = 5.0
MAX_REQUESTS: Final = 8


class SnapshotCollector(Collector):
    """Turns the latest snapshot into metric families."""

    def __init__(self, latest: Callable[[], Snapshot]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        snapshot = self._latest()
        info = GaugeMetricFamily(
            "stoker_build_info", "Always 1; the label says which release runs.", labels=["version"]
        )
        info.add_metric([version.STOKER], 1)
        yield info
        for name, value in sorted(snapshot.counters.items()):
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield kind(PREFIX + name, HELP.get(name) or name.replace("_", " "), value)
        yield _histogram(snapshot.turns)


def registry(latest: Callable[[], Snapshot]) -> CollectorRegistry:
    """Return a separate registry, fed only from the latest snapshot."""
    own = CollectorRegistry(auto_describe=False)
    own.register(SnapshotCollector(latest))
    return own


class Endpoint:
    """The HTTP endpoint, in its own threads from construction to `close`."""

    def __init__(self, address: str, latest: Callable[[], Snapshot]) -> None:
        """Listen and serve.

        Raises:
            ConfigError: the address is invalid.
            ResourceError: the system refuses the address.
        """
        host, port = host_and_port(address)
        handler = _handler(registry(latest), latest)
        try:
            self._server = _Server((host, port), handler)
        except OSError as error:
            raise ResourceError(
                f"metrics.address {host}:{port}: {error.strerror or error}; choose a free port of"
                " this host",
                address=address,
            ) from None
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="stoker-metrics"
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening and end the threads."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def host_and_port(address: str) -> tuple[str, int]:
    """Split `host:port`, `:port` or `port`; the host defaults to 127.0.0.1.

    Raises:
        ConfigError: the port is invalid.
    """
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"metrics.address: expected host:port or a port, got {address!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


def _histogram(turns: TurnTimes) -> HistogramMetricFamily:
    buckets, below = [], 0
    for edge, count in zip([*map(str, BUCKETS_S), "+Inf"], turns.counts, strict=True):
        below += count
        buckets.append((edge, below))
    return HistogramMetricFamily(
        "stoker_loop_turn_seconds", "Duration of the loop's turns.", buckets, turns.total_s
    )


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self._slots = threading.BoundedSemaphore(MAX_REQUESTS)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore scrapers that hang up; standard error stays clean."""


def _handler(own: CollectorRegistry, latest: Callable[[], Snapshot]) -> type:
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = REQUEST_S

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            snapshot = latest()
            if path == "/metrics":
                self._answer(200, generate_latest(own), CONTENT_TYPE_LATEST)
            elif path == "/livez":
                behind_s = time.monotonic() - snapshot.now
                alive = behind_s < LIVE_S
                self._say(
                    alive, "live" if alive else f"the loop has been hanging for {behind_s:.1f} s"
                )
            elif path == "/readyz":
                self._say(snapshot.ready, "ready" if snapshot.ready else "shutting down")
            else:
                self._answer(404, b"try /metrics, /livez, /readyz\n", "text/plain")

        def _say(self, good: bool, text: str) -> None:
            self._answer(200 if good else 503, text.encode() + b"\n", "text/plain")

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Requests are not logged."""

    return Handler
