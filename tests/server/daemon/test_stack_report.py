"""The function that a stack names."""

import sysconfig

from stoker.server.daemon.stack_report import describe_stack

STDLIB = sysconfig.get_paths()["stdlib"]
STACK = f"""Timeout (0:04:30)!
Thread 0x00007f (most recent call first):
  File "{STDLIB}/queue.py", line 171 in get
  File "/srv/code/pipelines.py", line 12 in waits
  File "/opt/lib/stoker/ops/custom/foreign.py", line 99 in call_into
  File "<frozen runpy>", line 88 in _run_code
"""


def test_it_is_the_innermost_function_of_the_user():
    assert describe_stack(STACK) == "it was in waits (/srv/code/pipelines.py:12)"


def test_without_one_it_is_the_innermost():
    without = STACK.replace("/srv/code/pipelines.py", "/opt/lib/stoker/jit/named.py")
    assert describe_stack(without) == f"it was in get ({STDLIB}/queue.py:171)"


def test_without_a_stack_the_process_may_be_stopped():
    assert "no stack trace was written; its process may be stopped" in describe_stack("")
