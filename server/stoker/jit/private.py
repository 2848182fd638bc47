"""Folders and files that only the user can change: the kernel cache is opened only with these.

numba stores machine code as pickles, so write access to the cache means code execution. Each folder
from `/` down is opened by its parent's descriptor, without following links, and checked by that
descriptor:

- It belongs to the user or to root. So does each link, which is then followed.
- No other user can write to it. A parent with the sticky bit (`/tmp`) is an exception, because
  there no other user can replace what the user owns.
- Write access for the user's own private group is accepted.

Inside of a folder that no other user can enter, the mode bits for others have no effect and are not
checked; owners are. Descriptors are opened for each use and not kept. Imports no NumPy,
because the daemon needs it before it starts the template.
"""

import contextlib
import errno
import functools
import grp
import os
import pwd
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from stoker.protocol.errors import ResourceError, SetupError

MAX_LINKS: Final = 40
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTER: Final = stat.S_IXGRP | stat.S_IXOTH
_OVERFLOW: Final = 65534
"""In a user namespace, the owner of files whose real owner is not mapped there."""


@dataclass(frozen=True)
class Folder:
    """An open, checked folder. Its holder closes it.

    Attributes:
        path: the path it was opened by.
        fd: its descriptor (O_PATH), for calls with `dir_fd`.
        closed: whether its mode, or the mode of a parent, keeps all other users out.
    """

    path: Path
    fd: int
    closed: bool

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a file; return its descriptor. With O_CREAT its mode is 0600.

        Raises:
            OSError: there is no such file, or it is a link.
            ResourceError: it is not a file, belongs to another user, or others can write to it.
        """
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(name, flags, 0o600, dir_fd=self.fd)
        try:
            status = os.fstat(descriptor)
            if (
                not stat.S_ISREG(status.st_mode)
                or not _is_trusted(status.st_uid, last=True)
                or (not self.closed and others_can_write(status, descriptor))
            ):
                raise _unsafe(self.path / name, status)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[str]:
        """Yield a path by which the checked file itself can be read, for code that takes paths.

        Raises:
            OSError, ResourceError: as `open`.
        """
        descriptor = self.open(name)
        try:
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def replacing(self, name: str) -> Iterator[BinaryIO]:
        """Yield a new file; it takes the name when the block ends without an error.

        Raises:
            OSError: it cannot be written.
        """
        part = f"{name}.{secrets.token_hex(8)}"
        try:
            with os.fdopen(self.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                yield file
            os.replace(part, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=self.fd)
            raise

    def names(self) -> list[str]:
        """Return the names of its entries."""
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)


def open_folder(path: Path, *, create: bool = False, strict: bool = False) -> Folder:
    """Open a folder and check it and all folders above it.

    Args:
        path: an absolute path.
        create: make missing folders, with mode 0700.
        strict: reject it if its mode lets others write, even if they cannot enter it.

    Raises:
        OSError: it is missing or cannot be opened or made.
        ResourceError: another user could change what is in it.
    """
    todo = _parts(path)
    links, closed = 0, False
    here = os.open("/", _FOLDER)
    try:
        _check(path, here, last=not todo, closed=False, strict=strict)
        while todo:
            name = todo.pop()
            status = _status(name, here, create=create)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if not _is_trusted(status.st_uid, last=False):
                    raise _unsafe(path, status)
                target = Path(os.readlink(name, dir_fd=here))
                todo += _parts(target)
                if target.is_absolute():
                    here, closed = _replaced(here, os.open("/", _FOLDER)), False
                continue
            here = _replaced(here, os.open(name, _FOLDER, dir_fd=here))
            if name == "..":
                closed = False
            closed = _check(path, here, last=not todo, closed=closed, strict=strict)
    except BaseException:
        os.close(here)
        raise
    return Folder(path, here, closed)


def why_unsafe(path: Path) -> str | None:
    """Return why `open_folder` with `strict` would refuse a folder; None: it would not.

    A missing folder is not refused.
    """
    try:
        os.close(open_folder(path, strict=True).fd)
    except FileNotFoundError:
        return None
    except ResourceError as error:
        return error.message
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None


def lock_file(folder: Folder, name: str) -> int:
    """Open a file to lock it, and make it if it is missing; return its descriptor.

    Raises:
        OSError, ResourceError: as `Folder.open`.
    """
    return folder.open(name, os.O_RDWR | os.O_CREAT)


def others_can_write(status: os.stat_result, descriptor: int) -> bool:
    """Return whether users other than the owner and root may write, by mode and access list.

    Write access for a group is accepted if it is the owner's private group: the owner's primary
    group, with the same name and no other account in it.
    """
    if status.st_mode & stat.S_IWOTH:
        return True
    if not status.st_mode & stat.S_IWGRP:
        return False
    return not _is_private_group(status.st_uid, status.st_gid) or _has_list(descriptor)


@functools.cache
def _is_private_group(uid: int, gid: int) -> bool:
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return (
        user.pw_gid == gid
        and group.gr_name == user.pw_name
        and set(group.gr_mem) <= {user.pw_name}
        and all(other.pw_gid != gid or other.pw_uid == uid for other in pwd.getpwall())
    )


def _has_list(descriptor: int) -> bool:
    """Return whether a file has an access list; its group bits then unite all entries."""
    try:
        os.getxattr(f"/proc/self/fd/{descriptor}", "system.posix_acl_access")
    except OSError as error:
        return error.errno not in (errno.ENODATA, errno.ENOTSUP)
    return True


def _check(path: Path, descriptor: int, *, last: bool, closed: bool, strict: bool) -> bool:
    """Check an open folder on the way to `path`; return whether other users are kept out.

    Raises:
        ResourceError: it is not safe.
    """
    status = os.fstat(descriptor)
    may_be_open = (closed and not (last and strict)) or (not last and status.st_mode & stat.S_ISVTX)
    if not _is_trusted(status.st_uid, last=last) or (
        not may_be_open and others_can_write(status, descriptor)
    ):
        where = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        raise _unsafe(path, status, where)
    return closed or not status.st_mode & _ENTER


def _is_trusted(uid: int, *, last: bool) -> bool:
    if uid in (os.geteuid(), 0):
        return True
    return not last and uid == _OVERFLOW and _overflow_is_nobody()


@functools.cache
def _overflow_is_nobody() -> bool:
    """Return whether this is a user namespace in which the overflow owner does not name a user."""
    with open("/proc/self/uid_map") as file:
        spans = [tuple(map(int, line.split())) for line in file]
    return not any(first <= _OVERFLOW < first + count for first, _, count in spans)


def _status(name: str, parent: int, *, create: bool) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
    return os.stat(name, dir_fd=parent, follow_symlinks=False)


def _parts(path: Path) -> list[str]:
    return [part for part in reversed(path.parts) if part != "/"]


def _replaced(old: int, new: int) -> int:
    os.close(old)
    return new


def _unsafe(path: Path, status: os.stat_result, where: Path | None = None) -> SetupError:
    kind = "folder" if stat.S_ISDIR(status.st_mode) else "file"
    what = f"kernel cache {path}"
    what += f": {where}" if where not in (None, path) else ""
    return SetupError(
        f"{what}: expected a {kind} of user {os.geteuid()} that others cannot write, got owner"
        f" {status.st_uid}, mode {stat.filemode(status.st_mode)}: machine code is loaded from it;"
        " choose another folder with daemon.cache_root, stoker.jit.set_cache_root or"
        " XDG_CACHE_HOME",
        path=str(path),
    )
