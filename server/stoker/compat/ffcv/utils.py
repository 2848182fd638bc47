"""FFCV's `ffcv.utils`: helpers for its files."""

from typing import NoReturn

from stoker.compat.ffcv.pipeline.missing import missing


def __getattr__(name: str) -> NoReturn:
    """Raise an error that says what to use instead.

    Raises:
        ImportError: always, if it is imported; otherwise AttributeError.
    """
    raise missing(
        "utils",
        name,
        "its helpers belong to the layout of FFCV's files: copy the function that you need into "
        "your script",
    )
