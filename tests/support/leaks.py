"""Runs around every test: what a test opens, it closes.

The fixture `no_leaks` looks before and after each test at this process's open descriptors, its slab
maps, its Python and ZeroMQ threads, at child processes (and their orphans), at /dev/shm and at the
session's own temporary folder. Anything new that is still there after `PATIENCE_S` fails the test
by name. Processes that a fixture of wider scope started may start and lose children of their own.

Limits: a process that was forked (not executed), then orphaned, is not found; threads of native
pools (OpenMP, torch, pyarrow) are made once a process, have no names, and are not counted; a slab's
map counts once so much of it was touched that the kernel's figures show it. One look costs well
under a millisecond, since nothing but the new is inspected. The look after one test is the one
before the next, unless a fixture of wider scope began or ended in between.
"""

import contextlib
import dataclasses
import functools
import gc
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import warm

PATIENCE_S = 20.0
MARK = f"STOKER_TEST_SESSION={os.getpid()}"
ALLOWED_FILES = {
    "/dev/urandom": "libsodium keeps it open for the life of the process",
    "/dev/null": "subprocess.DEVNULL handed to a wider fixture's process; holds no resource",
}
ALLOWED_FOLDERS = {
    "/matplotlib/mpl-data/fonts/": "matplotlib keeps fonts open for the life of the process",
}
ALLOWED_COMMANDS = {
    "multiprocessing.resource_tracker": "CPython keeps one for the life of the process",
}

ALLOWED_TEMPORARY = {
    "torchinductor_": "torch makes its compile cache's folder at the first optimizer step",
    "matplotlib-": "matplotlib makes its cache's folder where the home folder is read-only",
}


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """Everything that is open at one moment."""

    files: frozenset[str]
    maps: frozenset[str]
    threads: frozenset[str]
    pids: frozenset[int]
    shared: frozenset[str]
    temporary: frozenset[str]

    @staticmethod
    def take() -> "Snapshot":
        """Look at everything."""
        return Snapshot(
            files=_files(),
            maps=_slab_maps(),
            threads=_threads(),
            pids=frozenset(int(name) for name in os.listdir("/proc") if name.isdigit()),
            shared=frozenset(os.listdir("/dev/shm")),
            temporary=_temporary(),
        )

    def leaks(self, now: "Snapshot") -> list[str]:
        """Name what is there now and was not before, one line each."""
        found = [f"open descriptor {name}" for name in sorted(now.files - self.files)]
        found += [f"mapped slab {name}" for name in sorted(now.maps - self.maps)]
        found += [f"running thread {name}" for name in sorted(now.threads - self.threads)]
        found += [f"process {line}" for line in _own_processes(now.pids - self.pids, self.pids)]
        found += [f"/dev/shm/{name}" for name in sorted(now.shared - self.shared) if _ours(name)]
        return found + [
            f"{tempfile.gettempdir()}/{name}" for name in sorted(now.temporary - self.temporary)
        ]


def _files() -> frozenset[str]:
    found, kept = [], _kept_by_multiprocessing()
    zygotes = {found.control.fileno() for found in warm.running()}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own descriptor is closed by now
            target = os.readlink(f"/proc/self/fd/{number}")
            allowed = target in ALLOWED_FILES or any(part in target for part in ALLOWED_FOLDERS)
            if not allowed and int(number) not in kept | zygotes:
                found.append(f"{number} -> {target}")
    return frozenset(found)


def _kept_by_multiprocessing() -> set[int | None]:
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    return {tracker._resource_tracker._fd} if tracker else set()


def _slab_maps() -> frozenset[str]:
    """Maps of memfds. Reading all maps costs 5 ms where torch is loaded: only if memory changed."""
    with open("/proc/self/status", "rb") as file:
        sizes = dict(re.findall(rb"(\w+):\s+(\d+) kB", file.read()))
    mapped, *private = (int(sizes[name]) for name in (b"VmSize", b"VmData", b"VmStk"))
    return _slab_maps_with(mapped - sum(private), sizes[b"RssShmem"])


@functools.lru_cache(maxsize=1)
def _slab_maps_with(mapped_kb: int, used_kb: bytes) -> frozenset[str]:
    """Maps of memfds while this process maps as many files and uses as much shared memory."""
    del mapped_kb, used_kb  # the key of the cache
    with open("/proc/self/maps", "rb") as file:
        lines = [line.decode() for line in file.read().split(b"\n") if b"/memfd:" in line]
    return frozenset(f"{line.split()[0]} {line[73:]}" for line in lines)


def _threads() -> frozenset[str]:
    found = [f"{t.name!r} ({t.ident})" for t in threading.enumerate()]
    if "zmq" in sys.modules:
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm") as file:
                name = file.read().strip()
                if name.startswith("ZMQbg"):
                    found.append(f"{name} ({task}): a ZeroMQ context was not terminated")
    return frozenset(found)


def _temporary() -> frozenset[str]:
    names = os.listdir(tempfile.gettempdir())
    return frozenset(name for name in names if not name.startswith(tuple(ALLOWED_TEMPORARY)))


def _own_processes(new: frozenset[int], before: frozenset[int]) -> list[str]:
    return [line for pid in sorted(new) if (line := _describe(pid, before)) is not None]


def _describe(pid: int, before: frozenset[int]) -> str | None:
    """Describe a new process if this process is its only ancestor in this session."""
    try:
        parent = _parent(pid)
        while parent > 1 and parent not in before:
            parent = _parent(parent)
    except OSError:
        return None
    zygotes = [found.pid for found in warm.running()]
    if pid in zygotes:
        return None
    child = parent in (os.getpid(), *zygotes)
    orphan = _marked(pid) and not _marked(parent)
    command = _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="backslashreplace").strip()
    if not (child or orphan) or any(allowed in command for allowed in ALLOWED_COMMANDS):
        return None
    return f"{pid}: {command or '(zombie: not waited for)'}"


def _marked(pid: int) -> bool:
    return MARK.encode() in _read(pid, "environ").split(b"\0")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])


def _ours(name: str) -> bool:
    """Return whether an entry of /dev/shm belongs to the tests; other programs use the folder too.

    Semaphores belong to others: Stoker's have no names, and glibc maps them under another name.
    Memory of PyTorch is its maker's, who is in its name: it is made before it is mapped.
    """
    if name.startswith("sem."):
        return False
    maker = re.match(r"torch_(\d+)_", name)
    if maker and os.path.exists(f"/proc/{maker[1]}") and not _marked(int(maker[1])):
        return False
    path = f"/dev/shm/{name}".encode()
    others = (int(pid) for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != os.getpid())
    return not any(path in _read(pid, "maps") for pid in others if not _marked(pid))


_last: list[Snapshot] = []
"""The snapshot after the last test, if no fixture of wider scope has begun or ended since."""


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef) -> None:
    """Forget the last look when a fixture of wider scope opens something."""
    if fixturedef.scope != "function":
        _last.clear()


def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef) -> None:
    """Forget the last look when a fixture of wider scope has closed something."""
    if fixturedef.scope != "function":
        _last.clear()


def _settled(before: Snapshot) -> list[str]:
    """Return what is still leaked once garbage is collected and the patience has run out."""
    now = Snapshot.take()
    leaks = before.leaks(now)
    if not leaks:
        _last[:] = [now]
        return []
    gc.collect()
    gc.freeze()  # what stays is not looked at again: with a compiler loaded, that takes a second
    pause, deadline = threading.Event(), time.monotonic() + PATIENCE_S
    while (leaks := before.leaks(Snapshot.take())) and time.monotonic() < deadline:
        pause.wait(0.01)
    if leaks:
        gc.unfreeze()  # what was in use when it was frozen may be garbage since
        gc.collect()
        leaks = before.leaks(Snapshot.take())
    return leaks


@pytest.fixture(scope="session", autouse=True)
def session_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give the session a temporary and a runtime folder of its own, with a short path (sockets)."""
    tmp_path_factory.getbasetemp()  # stays where pytest puts it
    folder = Path(tempfile.mkdtemp(prefix="st-"))
    (folder / "run").mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        name, _, value = MARK.partition("=")
        patch.setenv(name, value)
        patch.setenv("TMPDIR", str(folder))
        patch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
        # Else each process that imports NumPy wakes a thread for every CPU, which looks for work.
        patch.setenv("OPENBLAS_NUM_THREADS", "1")
        patch.setattr(tempfile, "tempdir", str(folder))
        before = Snapshot.take()
        yield folder
        warm.close()
        left = [line for line in _settled(before) if line.startswith(("process", "/"))]
    shutil.rmtree(folder)
    if left:
        pytest.fail("the session leaves behind:\n  " + "\n  ".join(left), pytrace=False)


@pytest.fixture(autouse=True)
def no_leaks(session_folder: Path) -> Iterator[None]:
    """Fail a test that leaves something open."""
    before = _last.pop() if _last else Snapshot.take()
    runtime = frozenset(os.listdir(session_folder / "run"))
    yield
    leaks = _settled(before)
    leaks += [
        f"{session_folder}/run/{name}"
        for name in sorted(frozenset(os.listdir(session_folder / "run")) - runtime)
    ]
    if leaks:
        pytest.fail("the test leaves behind:\n  " + "\n  ".join(leaks), pytrace=False)
