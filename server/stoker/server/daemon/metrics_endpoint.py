"""Counters for people and Prometheus, and the HTTP endpoint that serves them.

The loop publishes a `Snapshot` a few times per second by storing one reference; the endpoint's
thread reads only the latest one, so the loop never waits for it and shares nothing with it.
The `process_` metrics are those of the daemon's process alone, read by the endpoint's thread.
Names: `stoker_..._total` only grow after the daemon's start, `_seconds` and `_bytes` are units, and
anything else is a gauge. STATUS carries the same numbers, without the prefix.

`/metrics` is for Prometheus. `/livez` is 200 while the loop turns (503 if it has not for `LIVE_S`).
`/readyz` is 200 while new clients are welcome; else it is 503 and says why not.

The daemon imports this module only if metrics are enabled, because it brings an HTTP server along.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from stoker.protocol import version
from stoker.protocol.errors import ConfigError, ResourceError
from stoker.protocol.messages import StageTimes
from stoker.server.daemon.http_server import Answer, HttpServer
from stoker.server.daemon.metric_help import HELP
from stoker.server.daemon.poller import BUCKETS_S, TurnTimes
from stoker.server.daemon.snapshot import Snapshot

PREFIX: Final = "stoker_"
LIVE_S: Final = 5.0


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
            yield kind(PREFIX + name, HELP.get(name, name), value)
        yield _histogram(snapshot.turns)
        yield from _stages(snapshot.stages)


def registry(latest: Callable[[], Snapshot]) -> CollectorRegistry:
    """Return a separate registry, fed from the latest snapshot, and for this process from /proc."""
    own = CollectorRegistry(auto_describe=False)
    own.register(SnapshotCollector(latest))
    ProcessCollector(registry=own)
    return own


class Endpoint:
    """The HTTP endpoint, in its own thread from construction to `close`."""

    def __init__(self, address: str, latest: Callable[[], Snapshot]) -> None:
        """Listen and serve.

        Raises:
            ConfigError: the address is invalid.
            ResourceError: the system refuses the address, or a thread.
        """
        host, port = host_and_port(address)
        own = registry(latest)

        def answer(path: str) -> Answer:
            if path == "/metrics":
                return Answer(200, generate_latest(own), CONTENT_TYPE_LATEST)
            return health(latest(), path)

        try:
            self._server = HttpServer(host, port, answer)
        except RuntimeError as error:
            raise ResourceError(
                f"metrics.address {host}:{port}: {error}; raise the limit on processes and threads"
                " (ulimit -u, TasksMax of systemd, --pids-limit of docker)",
                address=address,
            ) from None
        except OSError as error:
            raise ResourceError(
                f"metrics.address {host}:{port}: {error.strerror or error}; choose a free port of"
                " this host",
                address=address,
            ) from None
        self.port = self._server.port

    def close(self) -> None:
        """Stop listening and end the thread."""
        self._server.close()


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
        "stoker_loop_turn_seconds",
        "How long turns of the daemon's loop take, in seconds; none should take more than 0.005.",
        buckets,
        turns.total_s,
    )


def _stages(times: Sequence[StageTimes]) -> Iterator[Metric]:
    """Yield where the time of rows went."""
    served = ["dataset", "pipeline"]
    rows = CounterMetricFamily(
        "stoker_timed_rows_total", "Rows whose stages were timed: a fair sample.", labels=served
    )
    seconds = CounterMetricFamily(
        "stoker_stage_seconds_total",
        "Seconds of the timed rows in each stage: those that passed (wall), and those of processor"
        " time (cpu).",
        labels=[*served, "stage", "op", "clock"],
    )
    for one in times:
        names = one.dataset, one.pipeline
        rows.add_metric(names, one.rows)
        for stage in one.stages:
            for clock, value in (("wall", stage.wall_s), ("cpu", stage.cpu_s)):
                seconds.add_metric((*names, stage.stage, stage.op, clock), value)
    yield rows
    yield seconds


def health(snapshot: Snapshot, path: str) -> Answer:
    """Return the answer to a path other than `/metrics`."""
    if path == "/livez":
        behind_s = time.monotonic() - snapshot.now
        if behind_s < LIVE_S:
            return Answer(200, b"live\n")
        return Answer(503, f"the loop has been hanging for {behind_s:.1f} s\n".encode())
    if path == "/readyz":
        if not snapshot.unready:
            return Answer(200, b"ready\n")
        return Answer(503, f"{snapshot.unready}\n".encode())
    return Answer(404, b"try /metrics, /livez, /readyz\n")
