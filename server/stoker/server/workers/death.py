"""Dying with the parent, and knowing how a child died; Linux only, through prctl."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
# Deaths that come from outside and say nothing about the sample that was being computed.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def die_with_parent(parent: int) -> None:
    """Have the kernel SIGKILL this process when its parent dies; exit if that happened already.

    Args:
        parent: pid of the parent, taken before the fork or passed on the command line.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)


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
    return f"exit code {code}", code != 0
