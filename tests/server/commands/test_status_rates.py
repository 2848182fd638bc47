"""Rates between two answers of a daemon, with an oracle by hand."""

import pytest

from stoker.protocol.messages import SessionStatus, Status, WorkerStatus
from stoker.server.commands.status_rates import (
    TimedStatus,
    counter_rate,
    session_rates,
    workers_by_stage,
)


def session(**facts):
    empty = {
        "name": "", "host": "", "pid": 1, "user": "", "known_from": "", "state": "open",
        "dataset": "", "pipeline": "", "stream": "s", "group": "", "rank": 0, "world_size": 1,
        "epoch": 0, "step": 0, "steps": 9, "epochs": 0, "announced": 0, "returned": 0, "untaken": 0,
        "slots": 4, "waited_s": 0.0, "age_s": 1.0, "number": 1, "rows": 32,
    }  # fmt: skip
    return SessionStatus(**{**empty, **facts})


def worker(state, op=""):
    return WorkerStatus(
        1, 2, state, op, 0.0, 0.0, 0.0, "", "", "", 0, "", "", 0, 0, 0, None, None, 0, 1.0
    )


def at(seconds, *sessions, workers=(), **counters):
    return TimedStatus(Status(counters, list(sessions), workers=list(workers)), seconds)


def test_rates_of_a_session():
    before = at(10.0, session(number=7, announced=4), session(announced=10, waited_s=3.0))
    now = session(announced=25, waited_s=4.5)
    assert session_rates(before, at(15.0, now), now) == (3.0, 96.0, pytest.approx(0.3))
    new = session(number=8, announced=100)
    assert session_rates(before, at(15.0, new), new) == (0, 0, 0), "it came meanwhile"
    other = session(stream="t", announced=100)
    assert session_rates(before, at(15.0, other), other) == (0, 0, 0), "another stream"
    assert session_rates(before, at(10.0, now), now) == (0, 0, 0), "no time passed"


def test_rates_of_counters():
    before, now = at(1.0, rows_total=100), at(3.0, rows_total=700)
    assert counter_rate(before, now, "rows_total") == 300
    assert counter_rate(now, at(5.0, rows_total=10), "rows_total") == 0, "another daemon"
    assert counter_rate(before, now, "unknown") == 0


def test_workers_by_stage_begin_with_the_busy_ones():
    workers = (
        [worker("idle")] * 5 + [worker("op", "blur")] * 2 + [worker("decode"), worker("op", "crop")]
    )
    assert workers_by_stage(at(0.0, workers=workers).status) == [
        ("op blur", 2), ("decode", 1), ("op crop", 1), ("idle", 5),
    ]  # fmt: skip
