"""Start the template process, which takes longer to become ready than the rest of the daemon.

Runs in the daemon. `stoker serve` calls `launch` as soon as it knows its configuration, so that the
template imports numba while the daemon does its own imports; therefore this module imports almost
nothing. `pin_threads` gives the daemon itself the limit that its children get. A supervisor takes
over the launched template, and launches another if that one dies.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.protocol.errors import ResourceError
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


def pin_threads() -> None:
    """Limit the math libraries of this process and its children to one thread.

    Call it before NumPy is imported: OpenBLAS starts a thread for every other CPU at import. The
    daemon multiplies no matrices.
    """
    os.environ.update(PINNED)


def launch(cache_root: str, python_path: Sequence[str]) -> Launched:
    """Start a template; it handles messages on the socket once it is ready.

    Args:
        cache_root: folder of compiled kernels.
        python_path: folders searched after `sys.path` where pipelines are imported.

    Raises:
        ResourceError: the system starts no process.
    """
    try:
        # Same as `channel.pair`, but without its module, which imports all records.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        raise _refused(error) from None
    environment = {**without_working_folder(os.environ), **PINNED}
    command = [sys.executable, "-P", "-m", "stoker.server.workers.template"]
    with theirs:
        try:
            process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(os.getpid()), cache_root, *python_path],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            ours.close()
            raise _refused(error) from None
    ours.setblocking(False)
    return Launched(process, ours)


def _refused(error: OSError) -> ResourceError:
    return ResourceError(
        f"the template process cannot be started: {error.strerror}; raise the limits on processes,"
        " threads and open files (ulimit -u and -n; TasksMax and LimitNOFILE of systemd;"
        " --pids-limit of docker), or end other processes"
    )
