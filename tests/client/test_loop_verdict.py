"""The verdict on a loop: what bounds it, where, and what to change, for each cause."""

import pytest

from stoker.client.loop_pace import LoopPace
from stoker.client.loop_verdict import StreamFacts, judge
from stoker.protocol.messages import StageSum, StageTimes, Status

NAP = "slow.sleepy (pipelines.py:15)"


def pace(next_s, waited_s=None, rows=100, loop_s=10.0, batches=10):
    """A loop of 10 s."""
    made = LoopPace(lambda: 0.0)
    made.batches, made.rows, made.loop_s, made.next_s = batches, rows, loop_s, next_s
    made.waited_s = next_s if waited_s is None else waited_s
    return made


def rig(ranks=1, remote=False, dataset="photos", pipeline="train", **client):
    return StreamFacts([dataset], [pipeline], ranks, remote, **client)


def status(*stages, workers=1, queued=0.0, dataset="photos", pipeline="train"):
    """A daemon that has timed 10 rows; seconds of a row in each stage."""
    sums = [StageSum(stage, op, 10 * wall_s, 10 * cpu_s) for stage, op, wall_s, cpu_s in stages]
    other = StageTimes("others", "train", 5, [StageSum("decode", "", 99.0, 99.0)])
    counters = {
        "workers_up": workers, "worker_seconds_total": 10.0, "worker_queued_seconds_total": queued,
    }  # fmt: skip
    return Status(counters, stages=[other, StageTimes(dataset, pipeline, 10, sums)])


SLEEPS = status(("decode", "", 0.001, 0.001), ("op", NAP, 0.099, 0.003))
COMPUTES = status(("decode", "", 0.09, 0.09), ("op", NAP, 0.01, 0.01))
READS = status(("read", "", 0.08, 0.001), ("decode", "", 0.02, 0.02))
QUEUED = status(("decode", "", 0.1, 0.04), queued=5.0)
QUICK = status(("decode", "", 0.01, 0.01))
FEW = status(("op", NAP, 0.2, 0.0), workers=4)
SENT = status(("op", NAP, 0.1, 0.0), pipeline="private")
CASES = {
    "a slow step": (pace(0.2), rig(), SLEEPS,
        "compute-bound: 2 % of the loop waited (10 batches). A faster loader is not worth it: only"
        " a faster step makes the loop faster"),
    "a slow op": (pace(9.8), rig(), SLEEPS,
        "data-bound: 98 % of the loop waited (10 batches). Workers are 100 % busy at 4 % CPU: they"
        f" wait in op {NAP}, 99.0 of 100.0 ms a row. Use more workers, which need no more cores, or"
        " wait less there"),
    "decoding": (pace(9.8), rig(), COMPUTES,
        "data-bound: 98 % of the loop waited (10 batches). Workers are 100 % busy at 100 % CPU:"
        " they compute, most in decode, 90.0 of 100.0 ms a row. Use more workers on more cores, or"
        " pack smaller images"),
    "slow storage": (pace(9.8), rig(), READS,
        "data-bound: 98 % of the loop waited (10 batches). Workers are 100 % busy at 21 % CPU: they"
        " wait in read, 80.0 of 100.0 ms a row. Use faster storage, or more workers, which need no"
        " more cores"),
    "busy cores": (pace(9.8), rig(), QUEUED,
        "data-bound: 98 % of the loop waited (10 batches). Workers are 100 % busy at 40 % CPU: they"
        " wait for a processor 50 % of the time, most in decode, 100.0 of 100.0 ms a row. Other"
        " processes need the same cores: use fewer workers than cores, or more cores"),
    "a slow link": (pace(9.8), rig(remote=True), QUICK,
        "data-bound: 98 % of the loop waited (10 batches). Workers are 10 % busy: it waits for the"
        " network. Use a daemon on this host, or send less"),
    "other sessions": (pace(9.8), rig(), QUICK,
        "data-bound: 98 % of the loop waited (10 batches). Workers are 10 % busy: they wait for"
        " slots, for other sessions, or for storage. Give more prefetch=, or look at other sessions"
        " with stoker status"),
    "batches that are there": (pace(8.0, waited_s=1.0), rig(), SLEEPS,
        "data-bound: 80 % of the loop waited (10 batches). Batches had arrived: 800.0 ms a batch"
        " went into taking them over. Larger batches take less for each row; keep fewer if"
        " loader.statistics().copied grows"),
    "digests": (pace(8.0, waited_s=1.0), rig(is_verified=True), SLEEPS,
        "data-bound: 80 % of the loop waited (10 batches). Batches had arrived: 800.0 ms a batch"
        " went into comparing them with their digests. Leave out verify=True to save that"),
    "copies to a device": (pace(8.0, waited_s=1.0), rig(is_copied=True, has_modules=True), SLEEPS,
        "data-bound: 80 % of the loop waited (10 batches). Batches had arrived: 800.0 ms a batch"
        " went into copying them to the device. Let the pipeline give uint8, and normalize on the"
        " device"),
    "several daemons": (pace(9.8), rig(), None,
        "data-bound: 98 % of the loop waited (10 batches). Ask each daemon: stoker status"),
    "no times": (pace(9.8), rig(pipeline="val"), SLEEPS,
        "data-bound: 98 % of the loop waited (10 batches). The daemon has timed no row of it: see"
        " metrics.stage_times"),
    "ranks share the workers": (pace(9.8), rig(ranks=8), FEW,
        "data-bound: 98 % of the loop waited (10 batches). Workers are 100 % busy at 0 % CPU: they"
        f" wait in op {NAP}, 200.0 of 200.0 ms a row. Use more workers, which need no more cores,"
        " or wait less there"),
    "a pipeline of the loader, the only dataset": (pace(9.8), rig(dataset="", pipeline=""), SENT,
        "data-bound: 98 % of the loop waited (10 batches). Workers are 100 % busy at 0 % CPU: they"
        f" wait in op {NAP}, 100.0 of 100.0 ms a row. Use more workers, which need no more cores,"
        " or wait less there"),
    "one batch": (pace(0.0, rows=0, loop_s=0.0, batches=0), rig(), SLEEPS,
        "no verdict yet: it takes two batches of an epoch"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_cause_is_told_with_its_remedy(case):
    loop, of, found, text = CASES[case]
    assert str(judge(loop, of, found)) == text


def test_the_first_batch_of_an_epoch_counts_for_nothing():
    waits = iter([5.0, 7.0])
    loop = LoopPace(lambda: next(waits))
    for rows in (8, 8, 4):
        loop.called()
        loop.returns(rows)
    loop.measure()
    assert (loop.batches, loop.rows, loop.waited_s) == (2, 12, 2.0)
    assert 0 < loop.next_s <= loop.loop_s
