"""FFCV's `ffcv.memory_managers`: how it caches pages of its files."""

from stoker.compat.ffcv.missing_names import missing_names

__getattr__ = missing_names(
    __name__,
    "files are mapped here, and the system caches their pages: leave it out",
)
