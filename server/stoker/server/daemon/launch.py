"""Start the template process, which takes longer to become ready than the rest of the daemon.

Runs in the daemon. `stoker serve` calls `launch` as soon as it knows its configuration, so that the
template imports numba while the daemon does its own imports; therefore this module imports almost
nothing. A supervisor takes over the launched template, and launches another if that one dies.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.protocol.importing import without_working_folder

# One thread per process: workers are the parallelism, and a fork cannot copy a thread pool.
PINNED = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)


@dataclass(frozen=True)
class Launched:
    """A template process and the daemon's end of its control socket; the holder closes both."""

    process: subprocess.Popen[bytes]
    control: socket.socket

    def close(self) -> None:
        """Kill and reap the template, close the socket. Idempotent."""
        self.process.kill()
        self.process.wait()
        self.control.close()

    def __enter__(self) -> "Launched":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def launch(cache_root: str, python_path: Sequence[str]) -> Launched:
    """Start a template; it handles messages on the socket once it is ready.

    Args:
        cache_root: folder of compiled kernels.
        python_path: folders searched after `sys.path` where pipelines are imported.
    """
    # Same as `channel.pair`, but without its module, which imports all records.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**without_working_folder(os.environ), **PINNED}
    command = [sys.executable, "-P", "-m", "stoker.server.workers.template"]
    with theirs:
        process = subprocess.Popen(
            [*command, str(theirs.fileno()), str(os.getpid()), cache_root, *python_path],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    ours.setblocking(False)
    return Launched(process, ours)
