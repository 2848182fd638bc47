"""The content of the page, as events of text/event-stream; each has the whole state as JSON.

Runs in the thread of the endpoint. It keeps the snapshots of the last `WINDOW_S` seconds to see
what changed, and one event for all pages that are open. While pages are open the loop adds the
sessions to its snapshots, which costs it some microseconds for each. A page that is opened begins
with the last minute, for which the loop hands over its snapshots. Times are seconds.
"""

import collections
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from stoker.protocol import version
from stoker.protocol.messages import SessionStatus, StageTimes, WorkerStatus
from stoker.server.daemon.http_server import FRAME_S
from stoker.server.daemon.page.daemon_limits import UsableHost, limits
from stoker.server.daemon.page.last_minute import LastMinute
from stoker.server.daemon.page.recent_notes import RecentBadSamples, RecentWarnings
from stoker.server.daemon.page.session_verdict import Workers, session_verdict
from stoker.server.daemon.snapshot import MOST_SESSIONS, MOST_WORKERS, Snapshot
from stoker.server.settings import cgroup

WINDOW_S: Final = 10.0
_WATCHED_S: Final = 2.0


class PageState:
    """Makes events."""

    def __init__(
        self,
        latest: Callable[[], Snapshot],
        warnings: RecentWarnings,
        bad_samples: RecentBadSamples,
        facts: Mapping[str, object],
    ) -> None:
        """Take the sources.

        Args:
            latest: returns the latest snapshot.
            warnings: the last ones.
            bad_samples: the last ones.
            facts: what does not change, such as the address of the daemon.
        """
        self._latest = latest
        self._warnings, self._bad_samples = warnings, bad_samples
        self._facts = {"version": version.STOKER, **facts}
        self._machine = UsableHost(cgroup.cores()[0], resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._window: collections.deque[Snapshot] = collections.deque()
        self._last_minute = LastMinute()
        self._watched_at = -_WATCHED_S
        self._made_at = 0.0
        self._event = b""

    def watched(self, now: float) -> bool:
        """Return whether a page is open; called by the loop."""
        return now - self._watched_at < _WATCHED_S

    def add(self, snapshot: Snapshot) -> None:
        """Keep what a page that is opened later shows of a snapshot; called by the loop."""
        self._last_minute.add(snapshot)

    def history(self) -> bytes:
        """Return the event with which a page begins: the last minute."""
        return self._last_minute.event(time.monotonic(), time.time())

    def event(self) -> bytes:
        """Return the newest event."""
        now = time.monotonic()
        self._watched_at = now
        if now - self._made_at >= FRAME_S / 2:
            self._made_at = now
            self._event = b"data: " + msgspec.json.encode(self._state(now)) + b"\n\n"
        return self._event

    def _state(self, now: float) -> dict[str, Any]:
        snapshot = self._latest()
        before = self._before(snapshot)
        passed_s = max(snapshot.now - before.now, 1e-9)
        did = {
            name: (value - before.counters.get(name, 0)) / passed_s
            for name, value in snapshot.counters.items()
        }
        busy = did["worker_seconds_total"]
        workers = Workers(
            min(busy / max(snapshot.counters["workers_up"], 1), 1.0),
            snapshot.stages,
            snapshot.counters,
        )
        nearest = limits(snapshot.counters, self._machine, busy, did["worker_cpu_seconds_total"])
        return {
            **self._facts,
            "time": time.time(),
            "behind_s": now - snapshot.now,
            "unready": snapshot.unready,
            "workers_up": snapshot.counters["workers_up"],
            "busy": workers.busy,
            "rows_per_s": did["rows_total"],
            "sessions": self._sessions(snapshot, workers),
            "more_sessions": max(snapshot.counters["sessions"] - MOST_SESSIONS, 0),
            "workers": [_worker(one) for one in snapshot.workers[:MOST_WORKERS]],
            "more_workers": max(len(snapshot.workers) - MOST_WORKERS, 0),
            "stages": [_stages(one) for one in snapshot.stages],
            "limits": [{**one._asdict(), "part": one.part} for one in nearest],
            "warnings": self._warnings.newest_first(),
            "bad_samples": self._bad_samples.newest_first(),
        }

    def _before(self, snapshot: Snapshot) -> Snapshot:
        """Return the oldest snapshot of the window, and add the new one to it."""
        window = self._window
        if not window or window[-1] is not snapshot:
            window.append(snapshot)
        while window[0].now < snapshot.now - WINDOW_S:
            window.popleft()
        return window[0]

    def _sessions(self, snapshot: Snapshot, workers: Workers) -> list[dict[str, Any]]:
        """Return the sessions, each with a verdict on the time in which it was seen open."""
        earlier: dict[tuple[int, str], tuple[float, SessionStatus]] = {}
        for one in self._window:
            for session in one.sessions:
                if session.state == "open":
                    earlier.setdefault((session.number, session.stream), (one.now, session))
        shown = []
        for session in snapshot.sessions:
            since, before = earlier.get((session.number, session.stream), (snapshot.now, None))
            verdict = session_verdict(session, before, snapshot.now - since, workers)
            shown.append({**msgspec.structs.asdict(session), "verdict": verdict._asdict()})
        return shown


def _worker(one: WorkerStatus) -> dict[str, Any]:
    return {"worker": one.worker, "state": one.state, "op": one.op, "client": one.client}


def _stages(times: StageTimes) -> dict[str, Any]:
    """Return the stages of a pipeline as milliseconds a row, the slowest first."""
    rows = max(times.rows, 1)
    stages: Sequence[dict[str, Any]] = [
        {
            "stage": one.stage,
            "op": one.op,
            "wall_ms": 1000 * one.wall_s / rows,
            "cpu_ms": 1000 * one.cpu_s / rows,
        }
        for one in sorted(times.stages, key=lambda one: -one.wall_s)
    ]
    return {
        "dataset": times.dataset, "pipeline": times.pipeline, "rows": times.rows, "stages": stages,
    }  # fmt: skip
