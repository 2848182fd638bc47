"""The folder of a private daemon: who starts it, who still uses it, who removes it.

`<base>/stoker-<uid>-<key>/` (0700, ours) holds the sockets, the log, `current` (address and process
id of the daemon) and two lock files. `start.lock` is held exclusively while somebody starts the
daemon, connects to it, or removes the folder; `users.lock` is held shared by every client as long
as it lives, so whoever gets it exclusively was the last. The kernel drops both when a process dies,
however it dies: nothing has to be cleaned up before the next start. Folders that nobody uses any
more (everything was killed) are removed by the next `RuntimeFolder` that is entered.

A folder may be removed between opening its lock file and locking it: hence the comparison of
inodes, as with any lock file that is ever deleted.
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
from stoker.protocol.errors import ConnectError, PeerError

PREFIX = "stoker-"
POLL_S = 0.02
_START, _USERS, _CURRENT = "start.lock", "users.lock", "current"
_LONGEST_NAME = 16


def base_folder() -> str:
    """Return where runtime folders lie: $XDG_RUNTIME_DIR, else the folder for temporary files.

    One that cannot be written, or leaves no room for the name of a socket, is passed over.

    Raises:
        ConnectError: there is none.
    """
    tried = [os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp"]
    for base in tried:
        name = os.path.join(base, f"{PREFIX}{os.getuid()}-{'0' * 16}", "s" * _LONGEST_NAME)
        fits = len(os.fsencode(name + SIDE_SUFFIX)) <= MAX_PATH_BYTES
        if fits and os.path.isdir(base) and os.access(base, os.W_OK | os.X_OK):
            return base
    raise ConnectError(
        f"no folder for the sockets of a private daemon: none of {tried} can be written and is "
        "short enough; set XDG_RUNTIME_DIR"
    )


class RuntimeFolder:
    """One private daemon's folder.

    Attributes:
        path: the folder.
    """

    def __init__(self, key: str) -> None:
        """Name the folder of a key of 16 hex digits; nothing is made yet."""
        self._base = base_folder()
        self.path = os.path.join(self._base, f"{PREFIX}{os.getuid()}-{key}")
        self._users = -1

    @contextlib.contextmanager
    def locked(self, deadline: float) -> Iterator[None]:
        """Make the folder if it is not there, and hold its start lock.

        Raises:
            PeerError: the folder is not ours alone, or the lock was not free until the deadline.
        """
        lock = self._lock(deadline, create=True)
        assert lock is not None
        try:
            _sweep(self._base, self.path)
            yield
        finally:
            os.close(lock)

    def join(self) -> None:
        """Count this client among the users; the start lock is held."""
        if self._users < 0:
            self._users = _open_lock(os.path.join(self.path, _USERS))
            fcntl.flock(self._users, fcntl.LOCK_SH)

    def current(self) -> tuple[str, int] | None:
        """Return the daemon's address and process id; the start lock is held."""
        try:
            with open(os.path.join(self.path, _CURRENT), encoding="utf-8") as file:
                address, pid = json.load(file)
                return str(address), int(pid)
        except (OSError, ValueError):
            return None

    def set_current(self, address: str, pid: int) -> None:
        """Say which daemon is the current one; the start lock is held."""
        path = os.path.join(self.path, _CURRENT)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump([address, pid], file)
        os.replace(path + ".new", path)

    @contextlib.contextmanager
    def left(self, deadline: float) -> Iterator[bool]:
        """Leave the users; gives True to the last of them, who holds the start lock meanwhile.

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
        """In a forked child: close the copy of the users lock, without unlocking it."""
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
            raise ConnectError(
                f"{path}: expected a folder of user {os.getuid()} with mode 0700, got mode "
                f"{stat.filemode(found.st_mode)} of user {found.st_uid}; remove it"
            )


def _open_lock(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _wait_for(lock: int, deadline: float, path: str) -> None:
    while not _try_lock(lock):
        if time.monotonic() >= deadline:
            raise PeerError(f"another process is starting the private daemon in {path} for long")
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
    """Remove the folders of this user that nobody starts, uses or serves any more."""
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
    """Whether a process of that id runs (a zombie does not)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False
