"""Dying with the parent, ending what a child has started, and knowing how it died; Linux only.

A child of the template leads a process group, which the processes that a user's function starts
belong to. Whoever sees the child dead kills the group. When the daemon dies, the template kills all
groups and exits. If the template is killed together with the daemon, nobody is left to do so;
therefore what Python forks also asks the kernel to die with its parent. A process that leaves the
group (a session of its own) is left alone.
"""

import contextlib
import ctypes
import os
import signal
import threading
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG = 1
# Deaths that come from outside and say nothing about the sample that was being computed.
DESCRIPTORS_CLOSED: Final = 77
"""Exit code of a child in which a function closed descriptors that are not its own."""
OOM_SCORE: Final = 500
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
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)


def die_first() -> None:
    """Have the kernel take memory from this process and its children before others.

    What a worker computes is computed again elsewhere; a daemon or a trainer is not.
    """
    with contextlib.suppress(OSError):
        place = Path("/proc/self/oom_score_adj")
        place.write_text(str(max(int(place.read_text()), OOM_SCORE)))


def lead_group() -> None:
    """Make this process the leader of a group, and have what Python forks die with it."""
    os.setpgid(0, 0)
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

    As long as one of them lives, the kernel gives the leader's pid to nobody else. So if there is
    a living process with that pid, it is another one, and the group is empty.
    """
    with contextlib.suppress(OSError):
        stat = Path(f"/proc/{leader}/stat").read_text()
        if stat.rpartition(")")[2].split()[0] != "Z":
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
