"""Types that threads read values into at the same time."""

import subprocess
import sys

import msgspec
import pytest

from stoker.protocol.analysis import analyzed

DEADLINE_S = 60.0

CLASSES = """
import os, sys, threading
import msgspec
from stoker.protocol.analysis import analyzed

class Part(msgspec.Struct):
    number: "while_it_is_analyzed()"

class Whole(msgspec.Struct):
    parts: list[Part]
    name: str

def while_it_is_analyzed():
    thread.start()
    thread.join(0.2)
    print("alive" if thread.is_alive() else "done", flush=True)
    return int

def read():
    print(msgspec.convert({"parts": [{"number": 1}], "name": "a"}, known(Whole)), flush=True)

def fork():
    pid = os.fork()
    if not pid:
        read()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

known = (lambda kind: kind) if sys.argv[1] == "alone" else analyzed
thread = threading.Thread(target=fork if sys.argv[1] == "forked" else read)
read()
thread.join()
"""


def run(way: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CLASSES, way]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)


def test_a_thread_waits_until_another_one_has_analyzed_a_type():
    done = run("together")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n", 1)[0] == "alive"
    assert done.stdout.count("Whole(parts=[Part(number=1)], name='a')") == 2


def test_msgspec_alone_still_needs_it():
    """A failure means that msgspec has become safe, and that `analyzed` can go."""
    assert run("alone").returncode < 0


def test_a_type_is_returned_as_it_is():
    for kind in (list[int], int | str, tuple[int, ...]):
        assert analyzed(kind) is kind


def test_what_msgspec_rejects_is_rejected_each_time():
    class Wrong(msgspec.Struct):
        either: "list[int] | tuple[int, ...]"

    for _ in range(2):
        with pytest.raises(TypeError, match="more than one array-like"):
            analyzed(Wrong)


def test_a_fork_waits_too():
    """Otherwise the child would have half of an analysis, and a lock that is never released."""
    done = run("forked")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n", 1)[0] == "alive"
    assert done.stdout.count("Whole(parts=[Part(number=1)], name='a')") == 2
