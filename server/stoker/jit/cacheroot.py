"""Where compiled kernels lie on disk if nobody says it.

Where the user's cache cannot be written, as under a read-only file system or without a home, the
root is a folder of the user's among the temporary files. Apart from `stoker.jit.diskcache`, because
the daemon must know the root before it starts the template, and imports no NumPy for that.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def default_cache_root(variables: Mapping[str, str]) -> Path:
    """Return the folder of compiled kernels where nobody named one.

    It is `$XDG_CACHE_HOME/stoker/kernels`, else `~/.cache/stoker/kernels`; where that cannot be
    written, or there is no home, `stoker-kernels-<uid>` in the folder of temporary files.

    Args:
        variables: the environment.
    """
    wanted = users_root(variables)
    if wanted is not None and can_write(wanted):
        return wanted
    return fallback_root()


def users_root(variables: Mapping[str, str]) -> Path | None:
    """Return the folder in the user's cache; None where there is no home."""
    home = variables.get("HOME") or os.path.expanduser("~")
    base = variables.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    root = Path(base, "stoker", "kernels")
    return root if root.is_absolute() else None


def fallback_root() -> Path:
    """Return the folder among the temporary files."""
    return Path(tempfile.gettempdir(), f"stoker-kernels-{os.geteuid()}")


def can_write(path: Path) -> bool:
    """Whether a folder can be written, or made."""
    there = next(folder for folder in (path, *path.parents) if os.path.exists(folder))
    return os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK)
