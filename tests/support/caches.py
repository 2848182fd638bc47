"""Kernel caches of tests that begin with what the session's cache has."""

from pathlib import Path


def cache_without(names: tuple[str, ...], kernel_cache: Path, root: Path) -> Path:
    """Make a cache without the kernels whose folders begin so; all others are links.

    The parts of every pipeline would take 3 CPU-s to compile again, and copies of all kernels
    nearly as long.
    """
    root.mkdir(mode=0o700)
    for folder in kernel_cache.iterdir():
        if folder.is_dir() and not folder.name.startswith(names):
            (root / folder.name).symlink_to(folder)
    return root
