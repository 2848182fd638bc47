"""SIGUSR2 writes the Python stacks of a process into a memory file that `stoker stacks` reads.

Every process of a daemon calls `write_on_signal` once: the daemon, the template, and each child of
it after its fork. `faulthandler` writes in the handler of the signal, in C, so it also works while
a function never returns or compiled code keeps the interpreter. `stoker stacks` finds the file by
its name among the descriptors of the process, which the kernel shows to its user and root alone.
"""

import contextlib
import faulthandler
import fcntl
import os
import signal
from typing import Final

NAME: Final = "stoker-stacks"
SIGNAL: Final = signal.SIGUSR2
_opened: list[int] = []


def write_on_signal() -> None:
    """Write stacks at `SIGNAL` from now on; the file of a parent is closed.

    Without a free descriptor the process shows no stacks, and ignores the signal.
    """
    stop_writing()
    try:
        descriptor = os.memfd_create(NAME, os.MFD_CLOEXEC)
    except OSError:
        signal.signal(SIGNAL, signal.SIG_IGN)
        return
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
    faulthandler.register(SIGNAL, file=descriptor, all_threads=True, chain=False)
    _opened.append(descriptor)


def stop_writing() -> None:
    """Close the file; the signal does what it did before."""
    faulthandler.unregister(SIGNAL)
    while _opened:
        with contextlib.suppress(OSError):  # a function may have closed it
            os.close(_opened.pop())
