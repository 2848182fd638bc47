"""FFCV's `ffcv.memory_managers`: how it caches pages of its files.

It has no names here. The error of an import says what to use instead. Only scripts import it.
"""

from typing import NoReturn

from stoker.compat.ffcv.pipeline.missing import missing


def __getattr__(name: str) -> NoReturn:
    """Raise an error that says what to use instead.

    Raises:
        ImportError: always, if it is imported; otherwise AttributeError.
    """
    raise missing(
        "memory_managers",
        name,
        "files are mapped here, and the system caches their pages: leave it out",
    )
