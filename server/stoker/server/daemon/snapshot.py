"""Snapshots of the daemon's state, published by its loop and served by `metrics_endpoint`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stoker.protocol.messages import SessionStatus, StageTimes, WorkerStatus
from stoker.server.daemon.poller import TurnTimes

MOST_SESSIONS: Final = 64
"""Sessions that a snapshot has."""
MOST_WORKERS: Final = 64
"""Workers that a page shows."""


@dataclass(frozen=True)
class Snapshot:
    """The state of the daemon at one moment.

    Attributes:
        now: that moment, monotonic seconds.
        unready: why new clients are not welcome; empty if they are.
        counters: values by name, without the prefix.
        turns: the durations of the loop's turns.
        stages: where the time of rows went.
        sessions: the first of them, in the order of their HELLO, if someone looks at the page.
        workers: what each worker did.
        announced: the number of each of these sessions, and the batches announced to it.
    """

    now: float
    unready: str
    counters: Mapping[str, int | float]
    turns: TurnTimes
    stages: Sequence[StageTimes] = ()
    sessions: Sequence[SessionStatus] = ()
    workers: Sequence[WorkerStatus] = ()
    announced: Sequence[tuple[int, int]] = ()
