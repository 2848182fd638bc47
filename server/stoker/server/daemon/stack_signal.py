"""SIGUSR1 writes the Python stacks of all threads to standard error; the process goes on.

SIGUSR2 writes them for `stoker stacks`, see `workers.stack_file`.

`faulthandler` does it in the signal handler, so it works while the loop hangs. Standard error is
opened once more, without waiting: a pipe that no process reads loses the stacks and stops nothing.
"""

import contextlib
import faulthandler
import os
import signal
from collections.abc import Iterator

from stoker.server.workers.stack_file import stop_writing, write_on_signal


@contextlib.contextmanager
def stacks_on_signal(stderr: int) -> Iterator[None]:
    """Write stacks at SIGUSR1 and SIGUSR2 while the block runs.

    Args:
        stderr: descriptor of standard error.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open(f"/proc/self/fd/{stderr}", flags)
    except OSError:  # a socket, as that of journald
        descriptor = os.dup(stderr)
    try:
        faulthandler.register(signal.SIGUSR1, file=descriptor, all_threads=True, chain=False)
        write_on_signal()
        yield
    finally:
        stop_writing()
        faulthandler.unregister(signal.SIGUSR1)
        os.close(descriptor)
