"""Dying with the parent, ending what a child has started, and knowing how it died; Linux only.

A child of the template leads a process group, which the processes that a user's function starts
belong to. When the child dies, the template kills the group. Processes can leave the group (a
session of their own, a daemon that forked twice). Therefore child, template and daemon are
subreapers: the kernel gives a process whose parent died to the next subreaper above it. Such a
process becomes a child of the template when the worker dies, and of the daemon when the template
dies too; both kill children that they have not started. When the daemon dies, the template kills
all groups and all of its children, and exits. If template and daemon are killed together, no
process is left to do so; therefore what Python forks also asks the kernel to die with its parent,
and only programs survive.
"""

import contextlib
import ctypes
import os
import select
import signal
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
DESCRIPTORS_CLOSED: Final = 77
"""Exit code of a child in which a function closed descriptors that are not its own."""
OOM_SCORE: Final = 500
# Deaths that come from outside and do not blame the sample that was being computed.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def die_with_parent(parent: int) -> None:
    """Have the kernel SIGKILL this process when its parent dies; exit if that happened already.

    Args:
        parent: pid of the parent, taken before the fork or passed on the command line.
    """
    _signal_at_death(parent, signal.SIGKILL)


def wake_with_parent(parent: int) -> None:
    """Have the kernel continue this process, if it is stopped, when its parent dies.

    For a process that notices the death by itself and has work to do then. It exits if the parent
    is dead already.

    Args:
        parent: pid of the parent, taken before the fork or passed on the command line.
    """
    _signal_at_death(parent, signal.SIGCONT)


def _signal_at_death(parent: int, number: signal.Signals) -> None:
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def _is_subreaper() -> bool:
    found = ctypes.c_int()
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found))
    return bool(found.value)


def adopt_orphans() -> None:
    """Have the kernel make this process the parent of descendants whose parent dies."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_orphans(known: Collection[int], wait_s: float) -> bool:
    """SIGKILL and reap the children of this process that it has not started.

    A process that is not a subreaper adopts no children, so nothing is killed there.

    A dead process passes its own children on, so this goes on until there are no more, or until the
    time is over. Processes of another user (setuid programs) are left alone.

    Args:
        known: pids of the children that this process has started.
        wait_s: seconds to wait for deaths; with 0 it returns at once, and a later call reaps.

    Returns:
        Whether none is left.
    """
    if not _is_subreaper():
        return True
    end = time.monotonic() + wait_s
    foreign: set[int] = set()
    while orphans := children() - set(known) - foreign:
        for pid in orphans:
            try:
                os.kill(pid, signal.SIGKILL)
            except PermissionError:
                foreign.add(pid)
        orphans -= foreign
        for pid in orphans:
            _await_end(pid, end - time.monotonic())
        ended = [pid for pid in orphans if os.waitpid(pid, os.WNOHANG)[0]]
        if not ended and orphans and time.monotonic() >= end:
            return False
    return True


def children() -> set[int]:
    """Return the pids of the children of this process, also of dead ones that are not reaped."""
    own = str(os.getpid()).encode()  # /proc/self/task/*/children can omit some while others end
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if stat_of(name)[1] == own:
                found.add(int(name))
    return found


def stat_of(pid: int | str) -> list[bytes]:
    """Return what /proc/PID/stat says after the name: the state, the parent's pid, and so on.

    Nothing is decoded: a process can give itself any bytes for a name.

    Raises:
        OSError: there is no such process.
    """
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        return file.read().rpartition(b")")[2].split()


def _await_end(pid: int, wait_s: float) -> None:
    """Wait until a child is dead; it can still be reaped."""
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, wait_s) * 1000)
    finally:
        os.close(descriptor)


def die_first() -> None:
    """Have the kernel take memory from this process and its children before others.

    Another worker computes its rows again; a daemon or a trainer is not.
    """
    with contextlib.suppress(OSError):
        place = Path("/proc/self/oom_score_adj")
        place.write_text(str(max(int(place.read_text()), OOM_SCORE)))


def lead_group() -> None:
    """Make this process the leader of a group and a subreaper; what Python forks dies with it."""
    os.setpgid(0, 0)
    adopt_orphans()
    own = threading.local()

    def before() -> None:
        own.parent = os.getpid()
        own.is_main = threading.current_thread() is threading.main_thread()

    def in_child() -> None:
        if own.is_main:  # the kernel takes the end of the thread that forked for the parent's death
            die_with_parent(own.parent)

    os.register_at_fork(before=before, after_in_child=in_child)


def end_group(leader: int) -> None:
    """SIGKILL the processes that a dead child has left in its group; the child may be a zombie.

    As long as one of them lives, the kernel gives the leader's pid to no other process. So if there
    is a living process with that pid, it is another one, and the group is empty.
    """
    with contextlib.suppress(OSError):
        if stat_of(leader)[0] != b"Z":
            return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def describe(status: int) -> tuple[str, bool]:
    """Return (how a child died, whether the work it did may be to blame) from its wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return f"killed by {name}", number not in _FROM_OUTSIDE
    code = os.waitstatus_to_exitcode(status)
    if code == DESCRIPTORS_CLOSED:
        return "a function closed descriptors of the worker", True
    return f"exit code {code}", code != 0
