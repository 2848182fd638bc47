"""The last minute of workers and sessions, for pages that are opened later.

The loop adds a point at most every `FRAME_S`; the thread of the endpoint reads them: appending to a
deque and copying it are atomic. There are at most `POINTS` points, each of as many workers and
sessions as a page shows, so memory is bounded. Times are seconds, monotonic.
"""

import collections
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from stoker.server.daemon.http_server import FRAME_S
from stoker.server.daemon.snapshot import MOST_WORKERS, Snapshot

SPAN_S: Final = 63.0
"""What a page looks back on: a minute, and 3 s before it over which the first rate is taken."""
POINTS: Final = int(SPAN_S / FRAME_S)


class _Point(NamedTuple):
    """One moment: for each worker (number, state), for each session (number, announced)."""

    now: float
    workers: Sequence[tuple[int, str]]
    sessions: Sequence[tuple[int, int]]


class LastMinute:
    """Keeps the points."""

    def __init__(self) -> None:
        self._points: collections.deque[_Point] = collections.deque(maxlen=POINTS)

    def add(self, snapshot: Snapshot) -> None:
        """Keep a snapshot's workers and sessions, unless the last point is too recent."""
        if self._points and snapshot.now < self._points[-1].now + FRAME_S:
            return
        workers = [(one.worker, one.state) for one in snapshot.workers[:MOST_WORKERS]]
        self._points.append(_Point(snapshot.now, workers, snapshot.announced))

    def event(self, now: float, time_s: float) -> bytes:
        """Return the points as an event `history` of text/event-stream.

        Args:
            now: this moment, as snapshots have it.
            time_s: the same in seconds since 1970, which the event has.
        """
        points: list[dict[str, Any]] = [
            {
                "time": time_s - (now - point.now),
                "workers": dict(point.workers),
                "sessions": dict(point.sessions),
            }
            for point in [*self._points]
            if point.now >= now - SPAN_S
        ]
        return b"event: history\ndata: " + msgspec.json.encode(points) + b"\n\n"
