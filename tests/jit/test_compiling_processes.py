"""Functions are compiled in several processes, and a child's fate never counts."""

import subprocess

import pytest
from warm import Script

BEGIN = """
import os, signal, sys, time
from pathlib import Path
from stoker.jit import activity, compiled, compiling_processes, kernel, set_cache_root
from stoker.jit.compiling_processes import compile_in_processes

folder, parent = Path(sys.argv[1]), os.getpid()
set_cache_root(folder / "cache")

def meet(name, other):
    "Wait until another process has begun the other function."
    (folder / name).touch()
    deadline = time.monotonic() + 60
    while not (folder / other).exists():
        assert time.monotonic() < deadline, f"{other} has not begun"
        time.sleep(0.01)

def children_left():
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return "none"
"""
BOTH = """
def task(name, other, number):
    def compile():
        meet(name, other)
        (folder / f"{name}.pid").write_text(str(os.getpid()))
    return compile

compile_in_processes({"a": task("a", "b", 0), "b": task("b", "a", 1)}, 2)
pids = {(folder / f"{name}.pid").read_text() for name in "ab"}
print(len(pids), str(parent) in pids, tuple(activity.count()), children_left())
"""
STORED = """
import kernels_to_compile as kernels
from numba import int64

def task(name, other):
    def compile():
        meet(name, other)
        compiled(getattr(kernels, name)).compile((int64,))
    return compile

compile_in_processes({"twice": task("twice", "thrice"), "thrice": task("thrice", "twice")}, 2)
found = [compiled(kernels.twice), compiled(kernels.thrice)]
print(*(one(5) for one in found), sum(sum(one.stats.cache_misses.values()) for one in found))
"""
FATE = """
compiling_processes.WAIT_S = 0.5
reports = []

def task(name, other):
    def compile():
        meet(name, other)
        if os.getpid() != parent:
            FATE
    return compile

compile_in_processes({"a": task("a", "b"), "b": task("b", "a")}, 2)
print(tuple(activity.count()), children_left())
"""
FEW = """
def run(tasks, processes):
    compile_in_processes({name: (folder / name).touch for name in tasks}, processes)
    return sorted(path.name for path in folder.iterdir())

print(run("a", 4), run("bc", 1))
import threading
done = threading.Event()
threading.Thread(target=done.wait).start()
print(run("de", 2))
done.set()
"""
KERNELS = """
from stoker.jit import kernel

@kernel
def twice(value):
    return 2 * value

@kernel
def thrice(value):
    return 3 * value
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "kernels_to_compile.py").write_text(KERNELS)
    folder = tmp_path / "files"
    folder.mkdir()

    def run(text: str) -> list[str]:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "imports": ["numba"]}
        with Script("-c", BEGIN + text, folder, **options, cwd=tmp_path) as script:
            out, err = script.communicate(timeout=300)
        assert script.returncode == 0, err
        return out.splitlines()

    return run


def test_a_child_compiles_while_its_parent_does(run):
    assert run(BOTH) == ["2 True (2, 2) none"]


def test_what_a_child_has_compiled_is_in_the_cache(run):
    assert run(STORED) == ["10 15 1"], "one of them was compiled here"


@pytest.mark.parametrize(
    "fate",
    ["os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGSTOP)",
     "raise ValueError", "sys.exit(1)"],
)  # fmt: skip
def test_a_function_that_a_child_does_not_finish_is_left_to_its_parent(run, fate):
    assert run(FATE.replace("FATE", fate)) == ["(1, 2) none"]


def test_one_function_one_process_or_another_thread_leave_all_to_the_caller(run):
    assert run(FEW) == ["[] []", "[]"]
