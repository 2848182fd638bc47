"""Inputs of the decisions besides events: limits, deadlines, names. Fixed at start."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Settings:
    """Limits and deadlines of the daemon; seconds and bytes.

    Attributes:
        workers: number of workers that are kept running, at least 1.
        memory_limit_bytes: bound on the sum of all slabs.
        datasets: name -> path.
        pipelines: name -> `module:attr`.
        claim_deadline_s: a worker that takes longer for one chunk hangs and is killed.
        min_chunk_s: a chunk has at least this much work.
        brief_chunk_s: a chunk of rows that cost less than `brief_row_s` has this much work, if
            every worker then still has its chunks.
        brief_row_s: see `brief_chunk_s`.
        brief_batch_s: batches with less work are brief; some are computed before there is a credit.
        rest_s: the daemon ignores reports for at most this long, while workers have twice as much
            work.
        outstanding: chunks that a worker has at a time, so that it never waits for the next one.
        brief_outstanding: the same for brief batches, so that one turn answers several chunks.
        ahead_slot_bytes: streams whose slots have up to this size get extra slots for brief
            batches.
        worker_start_s: a worker that is not ready by then is killed.
        confirm_death_s: a killed worker not confirmed dead by then is given up; its slot is
            retired.
        worker_restart_backoff_s: pause before the restart after a first quick death; it doubles.
        worker_restart_backoff_max_s: bound of that pause.
        quick_death_s: a worker that did no chunk and lived for less died quickly.
        quick_deaths: after that many in a row, sessions get an error instead of waiting.
        blamed_deaths: a sample that killed or hung that many workers stops its stream.
        unblamed_deaths: the same for deaths that say nothing about the row (signals from outside).
        suspect_deaths: after that many deaths in a row at its chunks, a stream has one worker only.
        exit_with_last_client: leave when the last session is gone.
        first_client_s: with that, leave if no session attaches for so long after the start.
        drain_s: how long a stop waits for running chunks.
        max_sessions: bound on sessions, including those in the middle of their handshake.
        sessions_limited_by: what to raise for more sessions.
        hello_deadline_s: a session without a lifeline by then is ended.
        concurrent_builds: builds that run at a time; others wait.
        build_deadline_s: a build without progress for longer fails.
        start_deadline_s: processes that are killed while they start or build are started again for
            this long, then sessions get an error.
        cached_builds: number of results that are kept.
        concurrent_replays: replays that run at a time; others wait.
        replay_deadline_s: a replay that takes longer is ended.
        group_wait_s: a group of a given size begins without the other members after this time.
        max_bad_fraction: a stream stops if more of its dataset's samples are bad.
        crash_policy: what happens to a sample that crashes or hangs workers: its stream stops
            ("raise"), or continues with a substitute ("replace").
        integrity: which rows workers check when they read them; clients compare it.
        jpeg: the decoder of JPEGs with a grid; with "auto", Stoker's own is compiled beside.
        session_limit_bytes: bound on the slots of one session; 0: none.
        at_once_bytes: a session whose slots have up to this size has all of them when it opens.
        chunk_rows: every chunk has that many rows, as far as views and groups of rows allow, for
            tests; 0: the cost of rows decides.
    """

    workers: int
    memory_limit_bytes: int
    datasets: Mapping[str, str] = field(default_factory=dict)
    pipelines: Mapping[str, str] = field(default_factory=dict)
    claim_deadline_s: float = 60.0
    min_chunk_s: float = 0.002
    brief_chunk_s: float = 0.005
    brief_row_s: float = 0.00005
    brief_batch_s: float = 0.01
    rest_s: float = 0.003
    outstanding: int = 2
    brief_outstanding: int = 6
    ahead_slot_bytes: int = 2**23
    worker_start_s: float = 60.0
    confirm_death_s: float = 5.0
    worker_restart_backoff_s: float = 0.25
    worker_restart_backoff_max_s: float = 30.0
    quick_death_s: float = 10.0
    quick_deaths: int = 5
    blamed_deaths: int = 2
    unblamed_deaths: int = 8
    suspect_deaths: int = 2
    exit_with_last_client: bool = False
    first_client_s: float = 30.0
    drain_s: float = 10.0
    max_sessions: int = 1024
    sessions_limited_by: str = "daemon.max_sessions"
    hello_deadline_s: float = 10.0
    concurrent_builds: int = 2
    build_deadline_s: float = 300.0
    start_deadline_s: float = 60.0
    cached_builds: int = 64
    concurrent_replays: int = 1
    replay_deadline_s: float = 120.0
    group_wait_s: float = 60.0
    max_bad_fraction: float = 1.0
    crash_policy: Literal["raise", "replace"] = "raise"
    integrity: str = "auto"
    jpeg: str = "auto"
    session_limit_bytes: int = 0
    at_once_bytes: int = 2**26
    chunk_rows: int = 0
