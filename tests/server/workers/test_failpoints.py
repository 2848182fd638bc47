"""Fail points: the plan's grammar, who obeys, and what each action does to a real process."""

import signal
import subprocess
import sys

import pytest

from stoker.server.workers.failpoints import ACTIONS, FailPoints


def test_only_the_named_hit_of_the_named_process_fails():
    mine = FailPoints("worker.row:error:3:1, worker.chunk:error:1:2", process=1)
    for _ in range(2):
        mine.visit("worker.row")
    with pytest.raises(RuntimeError, match=r"fail point worker\.row"):
        mine.visit("worker.row")
    mine.visit("worker.row")
    mine.visit("worker.chunk")


def test_what_is_learned_at_the_named_hit_is_withheld():
    points = FailPoints("daemon.death:withhold:2")
    assert [points.visit("daemon.death") for _ in range(3)] == [False, True, False]


@pytest.mark.parametrize(
    ("action", "code"),
    [("kill", -signal.SIGKILL), ("segv", -signal.SIGSEGV), ("exit", 3), ("error", 1)],
)
def test_what_an_action_does_to_a_process(action, code):
    program = (
        "from stoker.server.workers.failpoints import FailPoints; "
        f"FailPoints('worker.row:{action}:1').visit('worker.row')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == code
    assert action in ACTIONS
