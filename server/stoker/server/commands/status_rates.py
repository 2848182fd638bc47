"""Rates between two answers to ASK_STATUS: rows and batches a second; workers by stage."""

from collections import Counter
from typing import Final, NamedTuple

from stoker.protocol.messages import SessionStatus, Status, WorkerStatus

QUIET: Final = frozenset({"idle", "starting", "ending"})
"""States of a worker that computes nothing."""


class SessionRates(NamedTuple):
    """What a session did between two answers.

    Attributes:
        batches_per_s: batches that were announced to it.
        rows_per_s: rows of its part of them.
        waited: the part of the time in which it waited for a batch, 0 to 1.
    """

    batches_per_s: float
    rows_per_s: float
    waited: float


class TimedStatus(NamedTuple):
    """A status, and when it came.

    Attributes:
        status: the answer.
        at_s: when it came, monotonic seconds.
    """

    status: Status
    at_s: float


def counter_rate(before: TimedStatus, now: TimedStatus, name: str) -> float:
    """Return how fast a counter grew, a second; 0 if it is unknown or began anew."""
    old, new = (moment.status.counters.get(name, 0) for moment in (before, now))
    passed_s = now.at_s - before.at_s
    return max(new - old, 0) / passed_s if passed_s > 0 else 0.0


def session_rates(before: TimedStatus, now: TimedStatus, session: SessionStatus) -> SessionRates:
    """Return the rates of a session of the later status; 0 if the earlier one does not have it."""
    old = next((one for one in before.status.sessions if one.number == session.number), None)
    passed_s = now.at_s - before.at_s
    if old is None or passed_s <= 0 or old.stream != session.stream:
        return SessionRates(0.0, 0.0, 0.0)
    batches_per_s = max(session.announced - old.announced, 0) / passed_s
    waited = (session.waited_s - old.waited_s) / passed_s
    return SessionRates(batches_per_s, batches_per_s * session.rows, min(max(waited, 0.0), 1.0))


def doing(worker: WorkerStatus) -> str:
    """Return what a worker does in words."""
    return f"op {worker.op}" if worker.state == "op" else worker.state


def workers_by_stage(status: Status) -> list[tuple[str, int]]:
    """Return how many workers are in each stage, the busy ones first, then by number."""
    counts = Counter(doing(worker) for worker in status.workers)
    return sorted(counts.items(), key=lambda pair: (pair[0] in QUIET, -pair[1], pair[0]))
