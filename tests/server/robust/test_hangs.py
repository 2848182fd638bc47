"""Functions of users that hang at one sample, and a hung worker whose death is not reported."""

import itertools
import os
import signal
import threading
from pathlib import Path

import pytest
from daemons import children

from stoker.dataset import open_dataset
from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import StreamStoppedError

pytestmark = pytest.mark.slow

CULPRIT = 7
DEADLINE_S = 10.0
"""Longer than a worker that a busy machine stops takes to begin its row."""


@pytest.fixture
def hanging(serve, sum_of):
    """A daemon with little patience, in which a function hangs at the culprit."""

    def run(pause_s, **more):
        settings = {
            "STOKER_WORKERS_CLAIM_DEADLINE_S": str(DEADLINE_S),
            "STOKER_TEST_HANG": sum_of(CULPRIT),
            "STOKER_TEST_PAUSE_S": str(pause_s),
        }
        # One worker: two would hang at the sample in two batches, and be killed in pairs.
        return serve(environment={**settings, **more}, warm=True, workers=1)

    return run


def digests(batches):
    return [batch_digest(batch, batch.epoch, batch.step) for batch in batches]


@pytest.mark.as_a_user
def test_a_function_that_blocks_is_blamed_with_its_sample_and_the_stream_stops(
    hanging, loader, small_dataset
):
    daemon = hanging(3600.0)
    with loader(daemon, "hangs") as batches, pytest.raises(StreamStoppedError) as caught:
        list(batches)
    error = caught.value
    assert error.details["id"] == CULPRIT
    with open_dataset(small_dataset) as dataset:
        assert f"(sample {CULPRIT} of dataset {dataset.fingerprint})" in error.message
    source = Path(__file__).with_name("robust_pipelines.py")
    assert "killed or hung a worker 2 times, the last: at rows " in error.message
    assert f"for more than {DEADLINE_S:g} s, in hanging ({source}:" in error.message
    assert error.message.endswith(f"leave it out: Loader(exclude=[{CULPRIT}])")
    with loader(daemon, "hangs", exclude=[CULPRIT], batch_size=3) as batches:
        assert sum(len(batch.label) for batch in batches) == 9


def test_a_function_that_loops_is_replaced_and_the_stream_goes_on(hanging, loader, expected):
    daemon = hanging(0.02, STOKER_BAD_SAMPLES_CRASH_POLICY="replace")
    with loader(daemon, "hangs") as batches:
        delivered = digests(batches)
    assert delivered == expected("hangs", 1, crashed=[CULPRIT])
    log = daemon.log.read_text()
    assert log.count("worker_killed") == 2
    assert log.count("sample_crashed") == 1
    assert "in hanging (" in log


@pytest.mark.as_a_user
def test_two_workers_that_hang_at_one_sample_in_two_batches_point_to_it(serve, loader, sum_of):
    settings = {
        "STOKER_WORKERS_CLAIM_DEADLINE_S": str(DEADLINE_S),
        "STOKER_TEST_HANG": sum_of(CULPRIT),
        "STOKER_TEST_PAUSE_S": "3600.0",
    }
    daemon = serve(environment=settings, workers=2)
    options = {"batch_size": 1, "prefetch": 24}
    with loader(daemon, "hangs", **options) as batches, pytest.raises(StreamStoppedError) as caught:
        list(itertools.chain(*itertools.repeat(batches, 3)))
    assert caught.value.details["id"] == CULPRIT
    assert daemon.log.read_text().count("worker_killed") >= 2


def slots(counters, daemon) -> list[int]:
    """Numbers of slots that are retired and spare, and of slots retired since the start."""
    found = counters(daemon)
    return [found[name] for name in ("retired_slots", "spare_slots", "retired_slots_total")]


@pytest.mark.as_a_user
def test_a_hung_worker_that_cannot_be_confirmed_dead_costs_its_slot_and_no_byte(
    serve, loader, expected, counters, wait_for
):
    """A worker stops and is killed; the report of its death comes with that of the next one.

    The first report is that of the builder.
    """
    settings = {
        "STOKER_WORKERS_CLAIM_DEADLINE_S": str(DEADLINE_S),
        "STOKER_TESTING_FAIL_POINTS": "worker.row:stop:1:1,daemon.death:withhold:2",
    }
    daemon = serve(environment=settings, warm=True)
    with loader(daemon) as batches:
        delivered = digests(batches)
        daemon.logged("worker_given_up worker=1")
        assert slots(counters, daemon) == [1, 0, 1]  # the spare has taken its place
        (template,) = children(daemon.pid)
        os.kill(children(template)[0], signal.SIGKILL)
        delivered += digests(batches)
        wait_for(lambda: slots(counters, daemon) == [0, 1, 1])
        delivered += digests(batches)
    assert delivered == expected("labels", 3)
    daemon.logged("worker_down worker=1")


def test_a_sample_whose_workers_are_killed_from_outside_is_named_after_eight_deaths(
    serve, loader, sum_of, tmp_path, wait_for
):
    """Such deaths say nothing about the sample, so there may be more of them."""
    begun = tmp_path / "begun"
    settings = {"STOKER_TEST_WAIT": sum_of(CULPRIT), "STOKER_TEST_BEGUN": str(begun)}
    daemon = serve(environment=settings, warm=True, workers=1)
    deaths = []

    def kill() -> None:
        for _ in range(8):
            wait_for(begun.exists)
            (template,) = children(daemon.pid)
            (worker,) = children(template)
            os.kill(worker, signal.SIGKILL)
            wait_for(lambda pair=(worker, template): pair[0] not in children(pair[1]))
            begun.unlink()
            deaths.append(worker)

    thread = threading.Thread(target=kill)
    with loader(daemon, "waits") as batches:
        thread.start()
        with pytest.raises(StreamStoppedError, match=f"sample {CULPRIT} ") as caught:
            list(batches)
    thread.join()
    assert caught.value.details["id"] == CULPRIT
    assert len(set(deaths)) == 8
