"""The data files that users' code reads: tables, weights and settings next to their modules.

A table that a module reads when it is imported changes pixels as its code does. An audit hook sees
each file that Python opens. A file counts if a user's code opens it, itself or through a library:
while its module is imported, or when its function is called. These do not count:

- files that a library opens while it is imported, and files of Python and of installed packages;
- caches of compiled code, files of the kernel such as /proc, and files that this process wrote;
- files that the samples of a live source are read from: the class declares their fingerprint;
- files beyond the first `MOST`, and files that a library opens without Python (OpenCV, Arrow).

A file of up to `WHOLE_BYTES` counts by its content, a larger one by its size and time.

Runs in builders, replayers and workers. The hook cannot be removed, so there is one, and it does
nothing while no `UserDataFiles` exists.
"""

import contextlib
import functools
import hashlib
import os
import stat
import sys
import sysconfig
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

MOST: Final = 256
"""Data files that are compared; live sources may open very many."""
WHOLE_BYTES: Final = 64 << 20
_INSTALLED: Final = ("site-packages", "dist-packages")
_PYTHON: Final = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_STOKER: Final = str(Path(__file__).parents[2])
_SAMPLES: Final = ("/live.py", "_row_of")
"""File and function below which a live source reads a sample."""
_KERNEL: Final = ("/proc/", "/sys/", "/dev/")
_listening: "weakref.WeakSet[UserDataFiles]" = weakref.WeakSet()
Signature = tuple[int, int, int]


class UserDataFiles:
    """The data files that users' code in this process has opened since this object was made."""

    def __init__(self) -> None:
        """Begin to listen."""
        self._opened: dict[str, None] = {}
        self._written: set[str] = set()
        self._files: dict[str, tuple[Signature, str]] = {}
        _install()
        _listening.add(self)

    def opened(self, path: str, *, to_write: bool) -> None:
        """Note that a file is being opened; called by the hook, so this reads nothing."""
        if to_write:
            if len(self._written) < MOST:
                self._written.add(path)
        elif path in self._files or (
            path not in self._written and len(self._files) + len(self._opened) < MOST
        ):
            self._opened[path] = None

    def has_grown(self) -> bool:
        """Return whether a file was opened since the last note."""
        return bool(self._opened)

    def note(self) -> dict[str, str]:
        """Return path -> digest of each file; files that were opened again are hashed again."""
        opened, self._opened = self._opened, {}
        for path in opened:
            found = _signature(path)
            before = self._files.get(path)
            if found is not None and (before is None or before[0] != found):
                self._files[path] = found, _digest(path, found)
        return {
            path: digest for path, (_, digest) in self._files.items() if path not in self._written
        }

    def forget(self) -> None:
        """Forget all files; modules are about to be imported again."""
        self._opened.clear()
        self._written.clear()
        self._files.clear()


def is_own_file(path: str | None) -> bool:
    """Return whether a file is a user's: neither part of Python or Stoker, nor installed."""
    if path is None or path.startswith(("<", f"{_STOKER}/")):
        return False
    installed = any(folder in Path(path).parts for folder in _INSTALLED)
    return not installed and not path.startswith(tuple(f"{folder}/" for folder in _PYTHON))


def still_has(path: str, digest: str) -> bool:
    """Return whether a data file still has a digest that `UserDataFiles.note` gave."""
    found = _signature(path)
    return found is not None and _digest(path, found) == digest


@functools.cache
def _install() -> None:
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    """Call the listeners for a file that users' code opens; errors here would reach that code."""
    if event != "open" or not _listening:
        return
    with contextlib.suppress(Exception):
        name, mode, flags = arguments
        if not isinstance(name, str | bytes):
            return
        access = flags & os.O_ACCMODE
        to_write = mode[:1] in ("w", "a", "x") if mode else access == os.O_WRONLY
        to_write = to_write or "+" in (mode or "") or access == os.O_RDWR
        path = os.path.abspath(os.fsdecode(name))
        if not _is_data(path) or not _is_opened_by_user(sys._getframe(1)):
            return
        for listener in list(_listening):
            listener.opened(path, to_write=to_write)


def _is_data(path: str) -> bool:
    return not path.startswith(_KERNEL) and "/__pycache__/" not in path and is_own_file(path)


def _is_opened_by_user(opener: FrameType) -> bool:
    """Return whether the code of a user opens a file, itself or by calling a library."""
    if opener.f_code.co_filename.startswith("<frozen importlib"):
        return False  # the file of a module, which counts as such
    by_user = False
    for frame in _outward(opener):
        code = frame.f_code
        if _is_own_code(code.co_filename):
            by_user = True
            if code.co_name == "<module>":
                return True
        elif code.co_filename.startswith(_STOKER):
            if not by_user or _reads_sample(code):
                return False
        elif code.co_name == "<module>" and not by_user:
            return False
    return by_user


def _reads_sample(code: CodeType) -> bool:
    return code.co_name == _SAMPLES[1] and code.co_filename.endswith(_SAMPLES[0])


def _outward(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


@functools.lru_cache(maxsize=4096)
def _is_own_code(path: str) -> bool:
    return is_own_file(path)


def _signature(path: str) -> Signature | None:
    """Return size, time and inode of a regular file; None for anything else."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _digest(path: str, signature: Signature) -> str:
    size, time_ns, _ = signature
    if size > WHOLE_BYTES:
        return f"stat:{size}:{time_ns}"
    return digest_of(Path(path))


def digest_of(path: Path) -> str:
    """Return the digest of a file's content, 32 hex digits; empty if it cannot be read."""
    try:
        return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return ""
