"""The folder of compiled kernels: its default place, and opening it safely.

If the user's cache is not writable (a read-only file system, no home directory), or if others can
write to it, the root is a folder that the user owns in the temporary directory. This is separate
from `stoker.jit.diskcache` because the daemon must know the root before it starts the template,
without importing NumPy.
"""

import contextlib
import functools
import logging
import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from stoker.jit.private import Folder, open_folder, why_unsafe

_log = logging.getLogger(__name__)
PREFIX: Final = "stoker-kernels-"
TEMPORARY: Final = "/tmp"
_warned: set[Path] = set()


def default_cache_root(variables: Mapping[str, str]) -> Path:
    """Return the folder of compiled kernels that is used if none was set.

    It is `$XDG_CACHE_HOME/stoker/kernels`, else `~/.cache/stoker/kernels`. If that is not writable
    or not safe, or there is no home, it is `fallback_root`.

    Args:
        variables: the environment.
    """
    wanted = users_root(variables)
    if wanted is not None and can_write(wanted) and why_unsafe(wanted) is None:
        return wanted
    return fallback_root()


def users_root(variables: Mapping[str, str]) -> Path | None:
    """Return the folder in the user's cache, or None if there is no home."""
    home = variables.get("HOME") or os.path.expanduser("~")
    base = variables.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    root = Path(base, "stoker", "kernels")
    return root if root.is_absolute() else None


def fallback_root() -> Path:
    """Return the folder in the temporary directory, or in XDG_RUNTIME_DIR: `stoker-kernels-<uid>`.

    If another user made it first, it is one with a random ending: one that an earlier process made,
    or a new one, the same for all calls of this process.
    """
    for place in _places():
        first = place / _name()
        if not os.access(place, os.W_OK | os.X_OK):
            continue
        if _is_private(first):
            return first
        if why_unsafe(place / secrets.token_hex(16)) is None:  # its parents are safe
            own = sorted(place.glob(f"{_name()}-*"))
            return next((path for path in own if _is_private(path)), place / _new_name())
    return _places()[0] / _name()


def is_fallback(root: Path) -> bool:
    """Return whether a folder is a possible result of `fallback_root`."""
    return root.parent in _places() and (
        root.name == _name() or root.name.startswith(f"{_name()}-")
    )


def can_write(path: Path) -> bool:
    """Return whether a folder is writable, or can be created."""
    there = next(folder for folder in (path, *path.parents) if os.path.exists(folder))
    return os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK)


def open_root(root: Path, *inside: str, create: bool = True) -> Folder:
    """Open the cache root, or a folder in it, and check it and all folders above it.

    Logs one line if it is the fallback because the usual folder is not safe.

    Args:
        root: the cache root.
        inside: names of folders in it.
        create: make folders that are missing.

    Raises:
        ResourceError: others can write to the root, or to one of its parents.
        OSError: it cannot be used.
    """
    if is_fallback(root):
        _warn(root)
    folder = open_folder(root, create=create, strict=True)
    if not inside:
        return folder
    with folder:
        return open_folder(root.joinpath(*inside), create=create)


def _warn(root: Path) -> None:
    """Log why the usual folder is unsafe, once for a process and its children."""
    if root in _warned:
        return
    _warned.add(root)
    wanted = users_root(os.environ)
    reason = why_unsafe(wanted) if wanted is not None and can_write(wanted) else None
    for path in (place / _name() for place in _places()):
        if reason is None and path != root:
            reason = why_unsafe(path)
            if reason is None and path.is_symlink():
                reason = f"kernel cache {path}: expected a folder and no link"
    if reason is not None:
        _log.warning("%s; %s is used now", reason.partition(": machine code")[0], root)


def _is_private(path: Path) -> bool:
    """Return whether a folder of the temporary directory is the user's own, or missing and safe."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return why_unsafe(path) is None
    except OSError:
        return False
    return (
        status.st_uid == os.geteuid()
        and not path.is_symlink()
        and os.access(path, os.W_OK | os.X_OK)
        and why_unsafe(path) is None
    )


def _places() -> tuple[Path, ...]:
    """Return the folders for temporary files, the preferred first."""
    found = [Path(TEMPORARY)]
    with contextlib.suppress(FileNotFoundError):  # none can be written
        found.insert(0, Path(tempfile.gettempdir()))
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime):
        found.append(Path(runtime))
    return tuple(dict.fromkeys(found))


def _name() -> str:
    return f"{PREFIX}{os.geteuid()}"


@functools.cache
def _new_name() -> str:
    return f"{_name()}-{secrets.token_hex(4)}"
