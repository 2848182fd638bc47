"""FFCV's `ffcv.types`: the layout of its files."""

from typing import NoReturn

from stoker.compat.ffcv.pipeline.missing import missing


def __getattr__(name: str) -> NoReturn:
    """Raise an error that says what to use instead.

    Raises:
        ImportError: always, if it is imported; otherwise AttributeError.
    """
    raise missing(
        "types",
        name,
        "a Stoker dataset has another layout: reader.Reader has num_samples and field_names, and "
        "`stoker pack` reads files of FFCV",
    )
