"""FFCV's `ffcv.memory_managers`: how it caches pages of its files.

Nothing of it is here: an import says what to do instead. Only scripts import it.
"""

from typing import NoReturn

from stoker.compat.ffcv.pipeline.missing import missing


def __getattr__(name: str) -> NoReturn:
    """Raise: nothing of it has a meaning here.

    Raises:
        ImportError: always, if it is imported; otherwise AttributeError.
    """
    raise missing(
        "memory_managers",
        name,
        "files are mapped here, and the system caches their pages: leave it out",
    )
