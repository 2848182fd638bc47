"""What the page says of a session and of the daemon's limits, from their numbers."""

import msgspec
import pytest

from stoker.protocol.messages import SessionStatus, StageSum, StageTimes
from stoker.server.daemon.page.daemon_limits import UsableHost, limits
from stoker.server.daemon.page.session_verdict import SessionVerdict, Workers, session_verdict

NAP = "slow.sleepy (pipelines.py:15)"
COUNTERS = {"worker_seconds_total": 10.0, "worker_queued_seconds_total": 0.5}
MIXED = {"dataset": "a mixture", "pipeline": "a mixture"}
BEFORE = SessionStatus(
    "run-17", "host", 1, "user", "kernel", "open", "photos", "train", "0" * 32, "", 0, 1, 0, 7, 99,
    9, 100, 90, 2, 8, 50.0, 99.0, 1, 32, 0.5,
)  # fmt: skip


def workers(busy=1.0, pipeline="train", timed=True):
    stages = [StageSum("decode", "", 0.01, 0.01), StageSum("op", NAP, 0.99, 0.03)]
    other = StageTimes("others", "train", 5, [StageSum("decode", "", 99.0, 99.0)])
    times = [StageTimes("photos", pipeline, 10, stages)]
    return Workers(
        busy, [other, *times] if pipeline != "alone" else times if timed else [], COUNTERS
    )


READY = SessionVerdict(
    "compute", "batches were ready for it in 98 % of the last 10 s",
    "A faster loader is not worth it: only a faster step makes the training faster",
)  # fmt: skip
NAPS = (
    f"it had no batch to take in 90 % of the last 10 s. Workers are 100 % busy at 4 % CPU: they"
    f" wait in op {NAP}, 99.0 of 100.0 ms a row"
)
MORE = "Use more workers, which need no more cores, or wait less there"
SLOTS = (
    "it had no batch to take in 90 % of the last 10 s. Workers are 30 % busy: they wait for slots,"
    " for clients, or for storage"
)
CASES = {
    "a slow step": ({"announced": 120, "waited_s": 50.2}, workers(), READY),
    "a slow op": ({"announced": 120, "waited_s": 59.0}, workers(), ("data", NAPS, MORE)),
    "one that a client sent": (
        {"announced": 120, "waited_s": 59.0, "pipeline": "sent by the client"},
        workers(pipeline="private"), ("data", NAPS, MORE),
    ),
    "a mixture": (
        {"announced": 120, "waited_s": 59.0, **MIXED}, workers(pipeline="alone"),
        ("data", NAPS, MORE),
    ),
    "nothing timed": (
        {"announced": 120, "waited_s": 59.0}, workers(pipeline="alone", timed=False),
        ("data", "it had no batch to take in 90 % of the last 10 s. Workers are 100 % busy",
         "No row of it was timed: see metrics.stage_times"),
    ),
    "few slots": (
        {"announced": 120, "waited_s": 59.0}, workers(busy=0.3),
        ("data", SLOTS, "Give more prefetch="),
    ),
    "an evaluation": (
        {"untaken": 0}, workers(), ("none", "it asked for no batch in the last 10 s", "")
    ),
    "a stopped training": (
        {}, workers(),
        READY._replace(text="batches were ready for it in 100 % of the last 10 s"),
    ),
    "building": (
        {"state": "opening"}, workers(),
        ("none", "its pipeline is built, or memory is reserved", ""),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_verdict(name):
    changes, did, expected = CASES[name]
    now = msgspec.structs.replace(BEFORE, **changes)
    assert session_verdict(now, BEFORE, 10.0, did) == expected


@pytest.mark.parametrize(("before", "passed_s"), [(None, 10.0), (BEFORE, 0.5)])
def test_a_session_that_was_hardly_looked_at_has_no_verdict(before, passed_s):
    found = session_verdict(BEFORE, before, passed_s, workers())
    assert found == ("none", "looking for a moment", "")


def test_the_limit_that_is_reached_first_comes_first():
    counters = {
        "memory_used_bytes": 3 * 2**30, "memory_limit_bytes": 4 * 2**30, "sessions": 2,
        "sessions_limit": 1024, "workers": 4, "descriptors": 700,
    }  # fmt: skip
    found = limits(counters, UsableHost(cores=8, descriptors=1000), 3.8, 2.0)
    assert [(one.name, round(one.part, 3)) for one in found] == [
        ("workers", 0.95),
        ("memory for batches and pipelines", 0.75),
        ("descriptors", 0.7),
        ("cores, used by workers", 0.25),
        ("sessions", 0.002),
    ]
    assert found[1].unit == "bytes"
    assert found[1].raised_by.startswith("memory.limit")
