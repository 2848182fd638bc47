"""What STATUS says that each worker does now, also of one that hangs and reports nothing."""

import contextlib
import os
import re
import signal
import threading
from functools import partial
from pathlib import Path

import counting
import pytest
from daemons import children, serving
from loading import digest

from stoker.client import Loader
from stoker.dataset import open_dataset
from stoker.protocol.errors import PeerError

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
STUCK = 3
"""The sample at which `waits` waits."""


@pytest.fixture
def serve(small_dataset, tmp_path, monkeypatch):
    """Start a daemon whose function `waits` waits for a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setenv("STOKER_TEST_PIPE", str(pipe))
    with open_dataset(small_dataset) as dataset:
        total = int(dataset.read("image", STUCK).astype(int).sum())
    monkeypatch.setenv("STOKER_TEST_HANG", str(total))
    monkeypatch.setenv("STOKER_METRICS_STAGE_TIMES", "false")
    monkeypatch.setenv("STOKER_WORKERS_BUILD_DEADLINE_S", "60")

    def begin(workers=1):
        names = ("stuck", "spinning")
        return serving(
            tmp_path, f"--dataset=small={small_dataset}", f"--workers={workers}",
            "--memory-limit=64MiB", f"--python-path={HERE}",
            *[f"--pipeline={name}=stage_pipelines:{name}" for name in names],
        )  # fmt: skip

    return begin


def line_of(text, function):
    lines = (HERE / "stage_pipelines.py").read_text().splitlines()
    first = lines.index(f"def {function}(sample):")
    number = next(number for number in range(first, len(lines)) if text in lines[number])
    return f"(stage_pipelines.py:{number + 1})"


def seen(daemon, state, **facts):
    """The first worker that is in a state, with these facts; waits for one."""

    def found():
        for one in counting.status(daemon.address).workers:
            if one.state == state and all(getattr(one, n) == v for n, v in facts.items()):
                workers[:] = [one]
        return workers

    workers = []
    counting.wait_for(found)
    return workers[0]


@contextlib.contextmanager
def closing_descriptor(descriptor):
    try:
        yield
    finally:
        os.close(descriptor)


def in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def read_until_the_daemon_ends(batches):
    with pytest.raises(PeerError):
        next(iter(batches))


def test_an_op_that_hangs_is_named_with_its_row_and_reader_while_it_hangs(serve, tmp_path):
    delivered, pipe = [], os.open(tmp_path / "pipe", os.O_RDWR)
    with closing_descriptor(pipe), serve() as daemon:
        idle = seen(daemon, "idle")
        (template,) = children(daemon.pid)
        assert children(template) == [idle.pid]
        assert (idle.op, idle.dataset, idle.row, idle.chunk_s) == ("", "", None, 0.0)
        options = {"pipeline": "stuck", "batch_size": 4, "device": "numpy", "shuffle": False}
        with Loader(daemon.address, name="run-17", **options) as batches:
            stream = batches.spec.stream_id
            reads = in_a_thread(lambda: delivered.extend(digest(batch) for batch in batches))
            op = f"waits {line_of('ops.python', 'stuck')}"
            first = seen(daemon, "op", op=op)
            assert (first.worker, first.pid) == (idle.worker, idle.pid)
            assert (first.dataset, first.pipeline, first.client) == ("small", "stuck", "run-17")
            assert (first.sessions, first.stream, first.rank) == (1, stream, 0)
            assert (first.epoch, first.step, first.row) == (0, 0, STUCK)
            assert first.sample == STUCK
            counting.wait_for(lambda: seen(daemon, "op", op=op).state_s > 0.5)
            later = seen(daemon, "op", op=op)
            assert later.chunk_s >= later.state_s > first.state_s
            assert 0 <= later.cpu < 0.5, "it waits"
            assert (later.row, later.sample) == (first.row, first.sample)
            os.write(pipe, b"x")
            reads.join()
        os.write(pipe, b"x" * 8)  # for the epochs after it, which were computed ahead
        after = seen(daemon, "idle")
        assert (after.client, after.sessions, after.sample) == ("", 0, None)
        assert (after.worker, after.pid) == (first.worker, first.pid)
        assert after.chunks > first.chunks
    assert len(delivered) == 2, "the last two samples are dropped"


def test_compiled_code_that_never_ends_is_named_and_its_processor_counts(serve):
    with serve(workers=2) as daemon:
        batches = Loader(daemon.address, pipeline="spinning", batch_size=2, device="numpy")
        with batches:
            reads = in_a_thread(partial(read_until_the_daemon_ends, batches))
            op = f"spins {line_of('spins', 'spinning')}"
            counting.wait_for(lambda: seen(daemon, "op", op=op).cpu > 0.2)
            spinning = seen(daemon, "op", op=op)
            assert spinning.state_s > 0
            os.kill(daemon.pid, signal.SIGTERM)
            os.kill(daemon.pid, signal.SIGTERM)
            reads.join()
        daemon.wait()


def test_states_of_a_worker_that_starts_and_one_that_is_stopped(serve):
    with serve(workers=2) as daemon:
        workers = counting.status(daemon.address).workers
        assert len(workers) == 2
        assert re.fullmatch(r"(starting|idle){2}", "".join(one.state for one in workers))
        both = [seen(daemon, "idle", worker=one.worker) for one in workers]
        assert len({one.pid for one in both}) == 2
        os.kill(both[0].pid, signal.SIGKILL)
        counting.wait_for(lambda: counting.counters(daemon.address)["worker_deaths_total"])
        new = seen(daemon, "idle", worker=3)
        assert new.pid not in {one.pid for one in both}
        assert new.age_s < both[1].age_s + 300
