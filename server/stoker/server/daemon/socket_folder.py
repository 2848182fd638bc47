"""The daemon's address in the file system: folder, lock, and two sockets with their modes.

`ipc:///dir/stoker.sock` means three files: the ZeroMQ socket at that path, the side socket at
path + ".fd" and the lock at path + ".lock". The process that holds the lock (flock, which the
kernel releases when the process dies in any way) owns the address. A socket whose lock
is free is stale and is replaced. A new socket cannot be reached until its owner and mode are set;
the process's umask has no effect. The lock's file has a fixed content: a file of that name with
another content is refused, and an empty one that was there before stays. While few
descriptors are left, the first socket is at path + ".off". Group members reach it through the
folder, which is created with mode 0700, or 0750 with a group; an existing folder is not changed.

Limit: a Unix socket's path has at most 107 bytes, including the side socket's suffix.
"""

import contextlib
import errno
import fcntl
import grp
import os
import socket
import stat
from typing import Final

from stoker.protocol.errors import ConfigError, ResourceError, UsageError, refusal_kind

MAX_PATH_BYTES: Final = 107
SIDE_SUFFIX: Final = ".fd"
LOCK_SUFFIX: Final = ".lock"
HIDDEN_SUFFIX: Final = ".off"
_SCHEME = "ipc://"
_LOCK_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_BACKLOG = 128
_MARK: Final = b"lock of a daemon of Stoker\n"


def socket_path(address: str) -> str:
    """Return the absolute path in an `ipc://` address.

    Raises:
        UsageError: another scheme, a relative path, or a path that is too long.
    """
    if address.startswith("tcp://"):
        raise UsageError(
            f"address {address!r}: expected ipc:///path, which every daemon has; to listen for"
            f" other hosts too, give --tcp {address} (daemon.tcp)",
            address=address,
        )
    path = address.removeprefix(_SCHEME)
    if path == address or not os.path.isabs(path) or path.endswith("/") or "\0" in path:
        raise UsageError(
            f"address {address!r}: expected ipc:// and the absolute path of a socket,"
            " such as ipc:///run/stoker/stoker.sock",
            address=address,
        )
    size = len(os.fsencode(path + SIDE_SUFFIX))
    if size > MAX_PATH_BYTES:
        raise UsageError(
            f"address {address!r}: the socket {path + SIDE_SUFFIX} has a path of {size} bytes, but"
            f" the system allows only {MAX_PATH_BYTES}; choose a shorter folder",
            address=address,
        )
    return path


def group_number(name: str | None) -> int | None:
    """Return the number of a group given by name or number; None stays None.

    Raises:
        ConfigError: no such group exists.
    """
    if name is None or name.isdigit():
        return None if name is None else int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise ConfigError(
            f"daemon.socket_group: there is no group {name!r} on this host; create it or"
            " choose another"
        ) from None


class SocketFolder:
    """An address owned by this process, from construction to `close`.

    Attributes:
        path: path of the ZeroMQ socket.
        group: number of the group that may connect, or None.
    """

    def __init__(self, address: str, group: int | None) -> None:
        """Create the folder and take the lock.

        Raises:
            UsageError: the address is invalid, or another file is in its place.
            ResourceError: another daemon has it, or the folder or the lock cannot be created.
        """
        self.path = socket_path(address)
        self.group = group
        self._bound: dict[str, os.stat_result] = {}
        try:
            make_folder(os.path.dirname(self.path), group)
            self._lock, self._owns_file = self._take_lock()
            _remove_hidden(self.path + HIDDEN_SUFFIX)
        except OSError as error:
            raise refusal_kind(error)(
                f"address {address!r}: {error.filename or self.path}: {error.strerror}; choose a"
                " writable folder",
                address=address,
            ) from None

    def listen(self, suffix: str, kind: int, backlog: int = _BACKLOG) -> socket.socket:
        """Bind and listen at path + suffix; `kind` is SOCK_STREAM or SOCK_SEQPACKET.

        Args:
            suffix: of the path.
            kind: of the socket.
            backlog: most connections that wait to be accepted.

        Raises:
            UsageError: a file that is not a socket is in the way.
            ResourceError: the system refuses, or another program listens there.
        """
        path = self.path + suffix
        sock = socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            _remove_stale(path)
            os.fchmod(sock.fileno(), 0)
            sock.bind(path)
            self._bound[path] = os.lstat(path)
            if self.group is not None:
                os.chown(path, -1, self.group)
            os.chmod(path, 0o600 if self.group is None else 0o660)
            sock.listen(backlog)
        except OSError as error:
            sock.close()
            raise refusal_kind(error)(
                f"socket {path}: {error.strerror}; choose a folder on a local disk that the daemon"
                " may write to, and a group that the daemon's user is in",
                path=path,
            ) from None
        except BaseException:
            sock.close()
            raise
        return sock

    def hide(self) -> None:
        """Take the ZeroMQ socket out of reach; connections that exist are not affected."""
        if self._is_bound(self.path):
            with contextlib.suppress(OSError):
                os.rename(self.path, self.path + HIDDEN_SUFFIX)

    def show(self) -> None:
        """Put the ZeroMQ socket back to its path, unless something else is there now."""
        if self._is_bound(self.path, HIDDEN_SUFFIX) and not os.path.lexists(self.path):
            with contextlib.suppress(OSError):
                os.rename(self.path + HIDDEN_SUFFIX, self.path)

    def close(self) -> None:
        """Remove the sockets that were bound here and the lock's file, then release the lock.

        Files that have replaced them are left alone.
        """
        for path in self._bound:
            for suffix in ("", HIDDEN_SUFFIX):
                if self._is_bound(path, suffix):
                    with contextlib.suppress(OSError):
                        os.unlink(path + suffix)
        if self._owns_file and _same_file(self._lock, self.path + LOCK_SUFFIX):
            with contextlib.suppress(OSError):
                os.unlink(self.path + LOCK_SUFFIX)
        self._bound.clear()
        os.close(self._lock)

    def _is_bound(self, path: str, suffix: str = "") -> bool:
        """Return whether the file at path + suffix is the socket that was bound at the path."""
        try:
            return os.path.samestat(self._bound[path], os.lstat(path + suffix))
        except (KeyError, OSError):
            return False

    def _take_lock(self) -> tuple[int, bool]:
        """Lock the file that is at the path now; its last owner may have just removed it.

        Returns:
            The descriptor, and whether the file is a daemon's, which is removed at the end.
        """
        path = self.path + LOCK_SUFFIX
        while True:
            try:
                lock, is_new = os.open(path, _LOCK_FLAGS | os.O_CREAT | os.O_EXCL, 0o600), True
            except FileExistsError:
                try:
                    lock, is_new = os.open(path, _LOCK_FLAGS), False
                except FileNotFoundError:
                    continue
            try:
                _check_lock(lock, path)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _same_file(lock, path):
                    return lock, _mark(lock, is_new=is_new)
            except BlockingIOError:
                os.close(lock)
                raise ResourceError(
                    f"address {_SCHEME}{self.path}: another daemon serves it; stop that one or"
                    " choose another address",
                    address=_SCHEME + self.path,
                ) from None
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)


def make_folder(folder: str, group: int | None, *, default: bool = False) -> None:
    """Make the folder of the sockets if it is missing.

    Args:
        folder: its path.
        group: the group that may enter it, if it is made here.
        default: it is Stoker's default: check that no other user made it or can write to it.

    Raises:
        UsageError: it fails the check.
        OSError: it cannot be made.
    """
    above = os.path.dirname(folder)
    os.makedirs(above, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
        if group is not None:
            os.chown(folder, -1, group)
            os.chmod(folder, 0o750)
    if not default:
        return
    for path in (folder, above):
        status = os.lstat(path) if path == folder else os.stat(path)
        is_safe = stat.S_ISDIR(status.st_mode) and not _others_can_replace(status, path == above)
        if not is_safe:
            raise UsageError(
                f"the default folder of the daemon's socket, {path}: expected a folder of user"
                f" {os.geteuid()} that others cannot write, got owner {status.st_uid}, mode"
                f" {stat.filemode(status.st_mode)}; remove it, or choose another place with"
                " --address",
                path=path,
            )


def open_to_others(folder: str) -> str | None:
    """Return what lets other users replace the sockets in a folder; None if nothing does.

    Clients refuse a listener of another user, so such users can only make the daemon unreachable.
    """
    status = os.stat(folder)
    if not _others_can_replace(status, may_be_shared=True):
        return None
    return f"owner {status.st_uid}, mode {stat.filemode(status.st_mode)}"


def _others_can_replace(status: os.stat_result, may_be_shared: bool) -> bool:
    """Return whether other users than root may remove what this user puts into a folder.

    Args:
        status: of the folder.
        may_be_shared: whether it may be root's, or writable for others with the sticky bit.
    """
    is_mine = status.st_uid == os.geteuid() or (may_be_shared and status.st_uid == 0)
    is_sticky = may_be_shared and status.st_mode & stat.S_ISVTX
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return not is_mine or bool(others_write and not is_sticky)


def _check_lock(lock: int, path: str) -> None:
    """Refuse a file of another program in the place of the lock; `close` would remove it.

    Raises:
        UsageError: it is one.
    """
    is_file = stat.S_ISREG(os.fstat(lock).st_mode)
    if not is_file or os.pread(lock, len(_MARK) + 1, 0) not in (b"", _MARK):
        raise UsageError(
            f"{path} exists and is not the lock of a daemon; move it away or choose another"
            " address",
            path=path,
        )


def _mark(lock: int, *, is_new: bool) -> bool:
    """Write the daemon's mark into a new lock file; return whether the file has it."""
    if is_new:
        with contextlib.suppress(OSError):  # the disk is full; only the next daemon would read it
            os.pwrite(lock, _MARK, 0)
    return is_new or os.pread(lock, len(_MARK), 0) == _MARK


def _remove_hidden(path: str) -> None:
    """Remove the hidden socket of a daemon that was killed."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)


def _same_file(descriptor: int, path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)


def _remove_stale(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise UsageError(
            f"{path} exists and is not a socket; remove it or choose another address", path=path
        )
    if _answers(path):
        raise ResourceError(
            f"{path}: another program listens there; stop it or choose another address", path=path
        )
    os.unlink(path)


def _answers(path: str) -> bool:
    """Return whether a process listens on that socket (a stale one refuses at once)."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK) as probe:
            number = probe.connect_ex(path)
        if number != errno.EPROTOTYPE:
            return number in (0, errno.EAGAIN)
    return True
