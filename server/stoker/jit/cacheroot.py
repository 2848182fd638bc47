"""Where compiled kernels are kept on disk by default.

If the user's cache is not writable (a read-only file system, no home directory), the root is a
folder that the user owns in the temporary directory. This is separate from `stoker.jit.diskcache`
because the daemon must know the root before it starts the template, without importing NumPy.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def default_cache_root(variables: Mapping[str, str]) -> Path:
    """Return the folder of compiled kernels if none was set.

    It is `$XDG_CACHE_HOME/stoker/kernels`, else `~/.cache/stoker/kernels`. If that is not writable,
    or there is no home, it is `stoker-kernels-<uid>` in the temporary directory.

    Args:
        variables: the environment.
    """
    wanted = users_root(variables)
    if wanted is not None and can_write(wanted):
        return wanted
    return fallback_root()


def users_root(variables: Mapping[str, str]) -> Path | None:
    """Return the folder in the user's cache, or None if there is no home."""
    home = variables.get("HOME") or os.path.expanduser("~")
    base = variables.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    root = Path(base, "stoker", "kernels")
    return root if root.is_absolute() else None


def fallback_root() -> Path:
    """Return the folder in the temporary directory."""
    return Path(tempfile.gettempdir(), f"stoker-kernels-{os.geteuid()}")


def can_write(path: Path) -> bool:
    """Whether a folder is writable, or can be created."""
    there = next(folder for folder in (path, *path.parents) if os.path.exists(folder))
    return os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK)
