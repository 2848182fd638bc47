"""Cgroups of a test's own, with a limit of memory or processes, where the machine allows them."""

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


class ProcessGroup:
    """A cgroup with a limit of processes and threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pids.max").write_text("max")

    def take(self, pid: int) -> None:
        """Move a process into the group, and let it start no other and no thread."""
        (self.folder / "cgroup.procs").write_text(str(pid))
        (self.folder / "pids.max").write_text((self.folder / "pids.current").read_text())

    def give(self) -> None:
        """End the limit."""
        (self.folder / "pids.max").write_text("max")


@contextlib.contextmanager
def process_group() -> Iterator[ProcessGroup]:
    """Make a group; its processes return to this one's at the end. Skip where that fails."""
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    v1 = [path for _, names, path in lines if "pids" in names.split(",")]
    v2 = [path for number, _, path in lines if number == "0"]
    root, inner = ("/sys/fs/cgroup/pids", v1) if v1 else ("/sys/fs/cgroup", v2)
    parent = Path(root) / "".join(inner[:1]).strip("/")
    folder = parent / f"stoker-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.mkdir()
        group = ProcessGroup(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no cgroup with a limit of processes can be made here: {error}")
    try:
        yield group
    finally:
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (parent / "cgroup.procs").write_text(pid)
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
