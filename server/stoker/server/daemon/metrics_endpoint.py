"""Counters for people and Prometheus, and the HTTP endpoint that serves them.

The loop publishes a `Snapshot` a few times per second by storing one reference; the endpoint's
thread reads only the latest one, so the loop never waits for it and shares nothing with it.
The `process_` metrics are those of the daemon's process alone, read by the endpoint's thread.
Names: `stoker_..._total` only grow after the daemon's start, `_seconds` and `_bytes` are units, and
anything else is a gauge. STATUS carries the same numbers, without the prefix.

`/metrics` is for Prometheus. `/livez` is 200 while the loop turns (503 if it has not for `LIVE_S`).
`/readyz` is 200 while new clients are welcome; else it is 503 and says why not. The other paths are
those of the `page`.

The daemon imports this module only if metrics are enabled, because it brings an HTTP server along.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from stoker.protocol.errors import ResourceError, refusal_kind
from stoker.protocol.messages import StageTimes
from stoker.server.daemon.http_server import Answer, HttpRequest, HttpServer
from stoker.server.daemon.metric_help import HELP
from stoker.server.daemon.metrics_address import host_and_port, page_address
from stoker.server.daemon.page.page_access import page_access
from stoker.server.daemon.page.page_site import PageSite
from stoker.server.daemon.page.page_state import PageState
from stoker.server.daemon.page.recent_notes import RecentBadSamples, RecentWarnings
from stoker.server.daemon.poller import BUCKETS_S, TurnTimes
from stoker.server.daemon.snapshot import Snapshot
from stoker.server.settings.config_types import MetricsSection

PREFIX: Final = "stoker_"
LIVE_S: Final = 5.0
_WITH_PAGE: Final = b"try /, /metrics, /livez, /readyz\n"
_WITHOUT_PAGE: Final = (
    b"try /metrics, /livez, /readyz; where other hosts reach the endpoint, the page at / needs"
    b" metrics.page_token\n"
)


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
    """The HTTP endpoint, in its own thread from construction to `close`.

    Attributes:
        port: where it listens.
        page: the address of its page; empty: it has none.
    """

    def __init__(
        self,
        settings: MetricsSection,
        latest: Callable[[], Snapshot],
        bad_samples: RecentBadSamples | None = None,
        facts: Mapping[str, object] | None = None,
    ) -> None:
        """Listen and serve.

        Args:
            settings: of the endpoint.
            latest: returns the latest snapshot.
            bad_samples: the last ones, for the page.
            facts: of the daemon that do not change, for the page.

        Raises:
            ConfigError: the address is invalid, or the page may not be served there.
            ResourceError: the system refuses the address, or a thread.
        """
        address = settings.address
        host, port = host_and_port(address)
        own = registry(latest)
        access = page_access(settings)
        self._warnings = RecentWarnings()
        self._state = PageState(
            latest, self._warnings, bad_samples or RecentBadSamples(), facts or {}
        )
        site = None if access is None else PageSite(access, self._state.history, self._state.event)

        def answer(request: HttpRequest) -> Answer:
            if request.path == "/metrics":
                return Answer(200, generate_latest(own), CONTENT_TYPE_LATEST)
            shown = None if site is None else site.answer(request)
            return shown or health(latest(), request.path, has_page=site is not None)

        try:
            with contextlib.ExitStack() as stack:
                stack.callback(self._warnings.close)
                self._server = HttpServer(host, port, answer)
                stack.pop_all()
        except RuntimeError as error:
            raise ResourceError(
                f"metrics.address {host}:{port}: {error}; raise the limit on processes and threads"
                " (ulimit -u, TasksMax of systemd, --pids-limit of docker)",
                address=address,
            ) from None
        except OSError as error:
            raise refusal_kind(error)(
                f"metrics.address {host}:{port}: {error.strerror or error}; choose a free port of"
                " this host",
                address=address,
            ) from None
        self.port = self._server.port
        self.page = "" if site is None else page_address(host, self.port)

    def watched(self, now: float) -> bool:
        """Return whether a page is open; may be called by another thread."""
        return self._state.watched(now)

    def add(self, snapshot: Snapshot) -> None:
        """Keep a snapshot for pages that are opened later; called by the loop."""
        if self.page:
            self._state.add(snapshot)

    def close(self) -> None:
        """Stop listening and end the thread."""
        self._server.close()
        self._warnings.close()


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


def health(snapshot: Snapshot, path: str, *, has_page: bool = False) -> Answer:
    """Return the answer to a path that is neither `/metrics` nor of the page."""
    behind_s = time.monotonic() - snapshot.now
    hanging = f"the loop has been hanging for {behind_s:.1f} s" if behind_s >= LIVE_S else ""
    if path == "/livez":
        return Answer(503, f"{hanging}\n".encode()) if hanging else Answer(200, b"live\n")
    if path == "/readyz":
        why = snapshot.unready or hanging  # a hanging loop greets nobody
        return Answer(503, f"{why}\n".encode()) if why else Answer(200, b"ready\n")
    return Answer(404, _WITH_PAGE if has_page else _WITHOUT_PAGE)
