"""FFCV's `ffcv.memory_managers`: how it caches pages of its files.

It has no names here. The error of an import says what to use instead. Only scripts import it.
"""

from stoker.compat.ffcv.missing_names import missing_names

__getattr__ = missing_names(
    __name__,
    "files are mapped here, and the system caches their pages: leave it out",
)
