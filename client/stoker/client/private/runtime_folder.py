"""The folder of a private daemon: which process starts it, uses it, and removes it.

`<base>/stoker-<uid>-<key>/` (mode 0700, owned by this user) holds the sockets, the log, `current`
(address and process id of the daemon) and two lock files. A process holds `start.lock` exclusively
while it starts the daemon, connects to it, or removes the folder. Every client holds `users.lock`
shared for as long as it lives, so a process that gets it exclusively was the last one. The kernel
releases both locks when a process dies in any way, so nothing has to be cleaned up before the next
start. Folders without users (everything was killed) are removed when the next `RuntimeFolder` is
locked.

A folder may be removed between opening its lock file and locking it; therefore the inodes are
compared, as for any lock file that is ever deleted.
"""

import contextlib
import fcntl
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator

from stoker.client.address import MAX_PATH_BYTES, SIDE_SUFFIX
from stoker.protocol.errors import AccessError, PeerError, SetupError

PREFIX = "stoker-"
POLL_S = 0.02
_START, _USERS, _CURRENT = "start.lock", "users.lock", "current"
_LONGEST_NAME = 16


def base_folder() -> str:
    """Return the parent of runtime folders: $XDG_RUNTIME_DIR, or the folder for temporary files.

    A folder that is not writable, or too long to leave room for a socket's name, is skipped.

    Raises:
        SetupError: no folder is usable.
    """
    tried = [os.environ["XDG_RUNTIME_DIR"]] if os.environ.get("XDG_RUNTIME_DIR") else []
    with contextlib.suppress(FileNotFoundError):  # no folder for temporary files can be written
        tried.append(tempfile.gettempdir())
    tried.append("/tmp")
    for base in tried:
        name = os.path.join(base, f"{PREFIX}{os.getuid()}-{'0' * 16}", "s" * _LONGEST_NAME)
        fits = len(os.fsencode(name + SIDE_SUFFIX)) <= MAX_PATH_BYTES
        if (
            fits
            and os.path.isabs(base)
            and os.path.isdir(base)
            and os.access(base, os.W_OK | os.X_OK)
        ):
            return base
    raise SetupError(
        f"no folder for the sockets of a private daemon: none of {tried} is writable and "
        "short enough; set XDG_RUNTIME_DIR"
    )


class RuntimeFolder:
    """One private daemon's folder.

    Attributes:
        path: the folder.
    """

    def __init__(self, key: str) -> None:
        """Name the folder of a key of 16 hex digits; creates nothing yet."""
        self._base = base_folder()
        self.path = os.path.join(self._base, f"{PREFIX}{os.getuid()}-{key}")
        self._users = -1

    @contextlib.contextmanager
    def locked(self, deadline: float) -> Iterator[None]:
        """Create the folder if it is missing, and hold its start lock.

        Raises:
            AccessError: the folder is not private to this user.
            PeerError: the lock was not free in time.
        """
        lock = self._lock(deadline, create=True)
        assert lock is not None
        try:
            _sweep(self._base, self.path)
            yield
        finally:
            os.close(lock)

    def join(self) -> None:
        """Add this client to the users; the caller holds the start lock."""
        if self._users < 0:
            self._users = _open_lock(os.path.join(self.path, _USERS))
            fcntl.flock(self._users, fcntl.LOCK_SH)

    def current(self) -> tuple[str, int] | None:
        """Return the daemon's address and process id; the caller holds the start lock."""
        try:
            with open(os.path.join(self.path, _CURRENT), encoding="utf-8") as file:
                address, pid = json.load(file)
                return str(address), int(pid)
        except (OSError, ValueError):
            return None

    def set_current(self, address: str, pid: int) -> None:
        """Record the current daemon; the caller holds the start lock."""
        path = os.path.join(self.path, _CURRENT)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump([address, pid], file)
        os.replace(path + ".new", path)

    @contextlib.contextmanager
    def left(self, deadline: float) -> Iterator[bool]:
        """Leave the users; yields True to the last one, which holds the start lock in the block.

        The folder is removed when the block ends without an exception and this was the last user.
        """
        if self._users >= 0:
            fcntl.flock(self._users, fcntl.LOCK_UN)  # a forked child may hold a copy
            os.close(self._users)
            self._users = -1
        try:
            lock = self._lock(deadline, create=False)
        except PeerError:
            lock = None
        if lock is None:
            yield False
            return
        try:
            last = _unused(self.path)
            yield last
            if last:
                shutil.rmtree(self.path, ignore_errors=True)
        finally:
            os.close(lock)

    def forget(self) -> None:
        """Close the copy of the users lock without unlocking it; for a forked child."""
        if self._users >= 0:
            os.close(self._users)
            self._users = -1

    def _lock(self, deadline: float, *, create: bool) -> int | None:
        while True:
            if create:
                _make_private(self.path)
            try:
                lock = _open_lock(os.path.join(self.path, _START))
            except FileNotFoundError:
                if create:
                    continue
                return None
            try:
                _wait_for(lock, deadline, self.path)
                if _same_file(lock, os.path.join(self.path, _START)):
                    return lock
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)


def _make_private(path: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    with contextlib.suppress(FileNotFoundError):
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise AccessError(
                f"{path}: expected a folder of user {os.getuid()} with mode 0700, got mode "
                f"{stat.filemode(found.st_mode)} of user {found.st_uid}; remove it"
            )


def _open_lock(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _wait_for(lock: int, deadline: float, path: str) -> None:
    while not _try_lock(lock):
        if time.monotonic() >= deadline:
            raise PeerError(
                f"waited too long for another process that is starting the private daemon in {path}"
            )
        time.sleep(POLL_S)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same_file(descriptor: int, path: str) -> bool:
    try:
        named = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), named)


def _unused(path: str) -> bool:
    users = _open_lock(os.path.join(path, _USERS))
    try:
        return _try_lock(users)
    finally:
        os.close(users)


def _sweep(base: str, own: str) -> None:
    """Remove the folders of this user that no process starts, uses or serves any longer."""
    for name in os.listdir(base):
        path = os.path.join(base, name)
        if path == own or not name.startswith(f"{PREFIX}{os.getuid()}-"):
            continue
        with contextlib.suppress(OSError):
            lock = os.open(os.path.join(path, _START), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if _try_lock(lock) and _unused(path) and not _served(path):
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


def _served(path: str) -> bool:
    folder = RuntimeFolder.__new__(RuntimeFolder)
    folder.path = path
    current = folder.current()
    return current is not None and is_running(current[1])


def is_running(pid: int) -> bool:
    """Return whether a process with that id runs (a zombie does not)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False
