"""A memory cgroup of a test's own, where the machine allows one."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

DEADLINE_S = 20.0


class MemoryGroup:
    """A cgroup with a limit of memory.

    Attributes:
        prefix: a command that runs another one in the group.
    """

    def __init__(self, folder: Path, limit: str, limit_bytes: int) -> None:
        self.folder = folder
        (folder / limit).write_text(str(limit_bytes))
        join = 'echo $$ > "$0" && exec "$@"'
        self.prefix = ("sh", "-c", join, str(folder / "cgroup.procs"))

    def kills(self) -> int:
        """Return how many processes the kernel has killed in it for want of memory."""
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(FileNotFoundError):
                lines = dict(line.split() for line in (self.folder / name).read_text().splitlines())
                return int(lines["oom_kill"])
        raise FileNotFoundError(self.folder)


@contextlib.contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup]:
    """Make a group below this process's own; skip the test where that is not possible."""
    parent, limit = _parent()
    folder = parent / f"stoker-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.mkdir()
        group = MemoryGroup(folder, limit, limit_bytes)
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        yield group
    finally:
        deadline = time.monotonic() + DEADLINE_S
        while pids := (folder / "cgroup.procs").read_text().split():
            for pid in pids:  # of a test that failed
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            if time.monotonic() > deadline:
                break
        folder.rmdir()


def _parent() -> tuple[Path, str]:
    """Return the folder of this process's memory cgroup, and the name of its limit."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return Path("/sys/fs/cgroup/memory") / path.strip("/"), "memory.limit_in_bytes"
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return Path("/sys/fs/cgroup") / line[3:].strip("/"), "memory.max"
    pytest.skip("this process is in no memory cgroup")
