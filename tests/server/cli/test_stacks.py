"""`stoker stacks`: of all processes of a daemon, also while a worker or the daemon itself hangs."""

import contextlib
import json
import os
import re
import signal
import threading
from pathlib import Path

import counting
import pytest
from commands import call
from daemons import children, serving

from stoker.client import Loader
from stoker.dataset import open_dataset
from stoker.protocol.errors import PeerError

pytestmark = pytest.mark.slow
AWAY, FAILED, USAGE = 75, 1, 2
PIPELINES = Path(__file__).parents[1] / "stages"


@pytest.fixture
def served(small_dataset, tmp_path, monkeypatch):
    """A daemon with one worker, whose function `waits` waits for a byte of a pipe at sample 3."""
    os.mkfifo(tmp_path / "pipe")
    with open_dataset(small_dataset) as dataset:
        total = int(dataset.read("image", 3).astype(int).sum())
    monkeypatch.setenv("STOKER_TEST_PIPE", str(tmp_path / "pipe"))
    monkeypatch.setenv("STOKER_TEST_HANG", str(total))
    with serving(
        tmp_path, f"--dataset=small={small_dataset}", "--workers=1", "--memory-limit=64MiB",
        f"--python-path={PIPELINES}", "--pipeline=stuck=stage_pipelines:stuck",
        "--pipeline=spinning=stage_pipelines:spinning",
    ) as daemon:  # fmt: skip
        counting.wait_for(lambda: counting.counters(daemon.address)["workers_up"])
        yield daemon


@contextlib.contextmanager
def hanging(daemon, pipeline):
    """A client whose worker hangs in an op; the daemon is killed at the end."""

    def read():
        with pytest.raises(PeerError):
            list(batches)

    def hangs():
        return any(one.state == "op" for one in counting.status(daemon.address).workers)

    options = {"pipeline": pipeline, "batch_size": 4, "device": "numpy", "shuffle": False}
    with Loader(daemon.address, name="run-17", **options) as batches:
        thread = threading.Thread(target=read)
        thread.start()
        try:
            counting.wait_for(hangs)
            yield
        finally:
            daemon.stop(signal.SIGKILL)
            thread.join()


def told(daemon, *flags):
    code, printed, errors = call("stacks", daemon.address, "--json", *flags)
    found = {one["role"]: one for one in json.loads(printed)["processes"]}
    return code, found, errors


@pytest.mark.as_a_user
def test_each_process_shows_where_it_is(served):
    code, found, errors = told(served)
    assert (code, errors) == (0, "")
    (template,) = children(served.pid)
    (worker,) = children(template)
    pids = {"daemon": served.pid, "template": template, "worker 1": worker}
    assert {role: one["pid"] for role, one in found.items()} == pids
    for role, frame in {
        "daemon": r'daemon\.py", line \d+ in _turn',
        "template": r'template\.py", line \d+ in _serve',
        "worker 1": r'worker\.py", line \d+ in _loop',
    }.items():
        assert re.search(frame, found[role]["text"]), found[role]
        assert "most recent call first" in found[role]["text"]
    assert found["worker 1"]["does"] == "idle"
    code, printed, _ = call("stacks", served.address)
    assert code == 0
    heads = [line for line in printed.splitlines() if ", process " in line]
    assert heads[:2] == [f"daemon, process {served.pid}", f"template, process {template}"]
    assert heads[2].startswith(f"worker 1, process {worker}, idle for ")
    assert counting.counters(served.address)["worker_deaths_total"] == 0


def test_a_function_that_blocks_is_in_the_stack_and_its_op_in_the_head(served):
    with hanging(served, "stuck"):
        code, printed, _ = call("stacks", served.address)
    assert code == 0
    op = r"op waits \(stage_pipelines\.py:\d+\)"
    assert re.search(rf"^worker 1, process \d+, {op} for \d+\.\d s, for run-17$", printed, re.M)
    assert re.search(r'stage_pipelines\.py", line \d+ in waits$', printed, re.M)


def test_a_worker_that_hangs_is_shown_by_status_with_its_op(served):
    with hanging(served, "stuck"):
        lines = call("status", served.address)[1]
        table = call("status", served.address, FORCE_COLOR="1", COLUMNS="200")[1]
    line = r'worker number=1 pid=(\d+) state=op op="waits \(stage_pipelines\.py:\d+\)" '
    found = re.search(rf"^{line}.* client=run-17 dataset=small pipeline=stuck ", lines, re.M)
    assert found, lines
    row = (
        rf"│ 1 +│ {found[1]} +│ op waits \(stage_pipelines\.py:\d+\) +│ run-17 +│ small +│ stuck +│"
    )
    assert re.search(row, table), table


def test_compiled_code_that_never_ends_delays_nothing(served):
    with hanging(served, "spinning"):
        code, found, _ = told(served)
    assert code == 0
    assert found["worker 1"]["does"].startswith("op spins (stage_pipelines.py:")
    assert re.search(r'machine\.py", line \d+ in run', found["worker 1"]["text"])


def test_a_stopped_process_did_not_answer_and_the_others_did(served):
    (template,) = children(served.pid)
    (worker,) = children(template)
    os.kill(worker, signal.SIGSTOP)
    try:
        code, found, _ = told(served, "--timeout", "0.5")
    finally:
        os.kill(worker, signal.SIGCONT)
    assert code == FAILED
    assert (found["worker 1"]["text"], found["worker 1"]["why"]) == (
        "",
        "it did not answer within 0.5 s",
    )
    assert "in _serve" in found["template"]["text"]
    os.kill(served.pid, signal.SIGSTOP)
    try:
        code, found, errors = told(served, "--timeout", "0.5")
    finally:
        os.kill(served.pid, signal.SIGCONT)
    assert code == FAILED
    assert found["daemon"]["why"] == "it did not answer within 0.5 s"
    assert "in _loop" in found["child"]["text"], "the daemon does not say which worker it is"
    assert errors.startswith("stoker: the daemon does not say what its workers do: ")


def test_what_it_cannot_do_is_one_line(tmp_path):
    address = f"ipc://{tmp_path}/none.sock"
    code, printed, errors = call("stacks", address)
    assert (code, printed) == (AWAY, "")
    assert errors.startswith(f"stoker: no daemon listens at {address}: ")
    code, printed, errors = call("stacks", "tcp://node3:7470")
    assert (code, printed) == (USAGE, "")
    assert "run the command there" in errors
