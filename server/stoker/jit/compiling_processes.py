"""Compiles functions in several processes at once, into the cache on disk.

numba compiles in one thread of a process at a time. So a process with several functions to compile
forks children, and all of them take the next function from one pipe until it is empty. A child that
dies or stops costs time, nothing else: its function is compiled when it is needed, and an error is
raised then. For a process without other threads, such as a builder.
"""

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Final

from stoker.jit import activity
from stoker.jit.compiler_tables import fill_tables

Tasks = Mapping[Hashable, Callable[[], object]]
"""Names of functions, under which `activity` counts them, and their compilers."""
NUMBER: Final = 2
"""Bytes of a function's number in a pipe. A pipe gives and takes them at once."""
MOST: Final = 2**14
"""Functions at once: their numbers fit into a pipe."""
WAIT_S: Final = 120.0
"""How long a process waits for its children when there is nothing else to compile."""


def compile_in_processes(tasks: Tasks, processes: int) -> None:
    """Compile functions in this process and in children.

    Args:
        tasks: the functions; their errors are ignored.
        processes: how many to use, this one included.
    """
    keys = list(tasks)[:MOST]
    extra = min(processes, len(keys)) - 1
    if extra < 1 or threading.active_count() > 1:
        return
    activity.expect(keys)
    activity.begin_compiling()
    fill_tables()
    queue = _filled(len(keys))
    reader, writer = os.pipe()
    children: list[int] = []
    try:
        try:
            for _ in range(extra):
                children += _forked(tasks, keys, queue, writer)
        finally:
            os.close(writer)
        for number in _compiled(tasks, keys, queue):
            activity.finished(keys[number])
        _wait(reader, keys)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.close(reader)
        os.close(queue)
        activity.end_compiling()


def _filled(count: int) -> int:
    """Return the end of a pipe that gives the numbers below `count`, and then ends."""
    reader, writer = os.pipe()
    os.write(writer, b"".join(map(_to_bytes, range(count))))
    os.close(writer)
    return reader


def _forked(tasks: Tasks, keys: Sequence[Hashable], queue: int, writer: int) -> list[int]:
    """Fork a child that compiles functions and writes the number of each one when it is done.

    Returns:
        Its pid; an empty list if no process or no memory is left for one.
    """
    try:
        child = os.fork()
    except OSError:
        return []
    if child:
        return [child]
    try:
        activity.listen(None)
        for number in _compiled(tasks, keys, queue):
            os.write(writer, _to_bytes(number))
    finally:
        os._exit(0)


def _compiled(tasks: Tasks, keys: Sequence[Hashable], queue: int) -> Iterator[int]:
    """Compile the functions that this process takes from the queue; yield their numbers."""
    while taken := os.read(queue, NUMBER):
        number = int.from_bytes(taken)
        with contextlib.suppress(Exception):
            tasks[keys[number]]()
            yield number


def _wait(reader: int, keys: Sequence[Hashable]) -> None:
    """Wait until all children have ended, and count the functions that they have compiled."""
    until = time.monotonic() + WAIT_S
    ready = select.poll()
    ready.register(reader, select.POLLIN)
    while (left_s := until - time.monotonic()) > 0:
        if ready.poll(left_s * 1000):
            done = os.read(reader, NUMBER)
            if not done:
                return
            activity.finished(keys[int.from_bytes(done)])
            activity.progressed()


def _to_bytes(number: int) -> bytes:
    return number.to_bytes(NUMBER)
