"""The lock under which an index is made: who has it, and how long others wait.

A lock of the kernel (flock), so it ends with its process. Its file names the process, for those who
wait. They wait as long as the files in the index's work folder change, and `STALLED_S` longer: the
process may be stopped, or hang on a file system.
"""

import fcntl
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from stoker.protocol.errors import ResourceError

STALLED_S = 600.0
POLL_S = 0.1
QUIET_S = 2.0
_PID_BYTES = 32
_log = logging.getLogger(__name__)


def take_lock(
    descriptor: int, path: Path, work: Path, waiting: Callable[[], None] | None = None
) -> None:
    """Take the lock of an open lock file; wait while another process makes the index.

    Args:
        descriptor: of the lock file, open for writing. Closing it releases the lock.
        path: of the lock file, for messages.
        work: the folder in which the other process writes.
        waiting: called whenever the other process made progress.

    Raises:
        ResourceError: the other process made no progress for `STALLED_S`.
    """
    begin = changed_at = time.monotonic()
    seen, quiet = _contents(work), True
    while not _try(descriptor):
        now, found = time.monotonic(), _contents(work)
        if found != seen:
            seen, changed_at = found, now
            if waiting is not None:
                waiting()
        if quiet and now - begin > QUIET_S:
            quiet = False
            _log.warning("process %s makes the same index; waiting for it", _holder(descriptor))
        if now - changed_at > STALLED_S:
            raise ResourceError(
                f"process {_holder(descriptor)} holds {path} and has made no progress with the "
                f"index for {STALLED_S:g} s; look whether it is stopped or waits for storage, end "
                "it, and try again",
                path=str(path),
            )
        time.sleep(POLL_S)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    """Return the number of the process that has the lock, as its file says."""
    text = os.pread(descriptor, _PID_BYTES, 0).decode("ascii", "replace").strip()
    return text if text.isdecimal() else "?"


def _contents(folder: Path) -> set[tuple[str, int]]:
    """Return name and size of the files in a folder; none if it does not exist."""
    try:
        with os.scandir(folder) as entries:
            return {(entry.name, entry.stat().st_size) for entry in entries}
    except OSError:
        return set()
