"""FFCV's `ffcv.libffcv`: C functions of its decoders.

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
        "libffcv",
        name,
        "a Stoker dataset is decoded by Stoker: use the decoders of fields.decoders, or NumPy and "
        "OpenCV in an operation whose state has jit_mode=False",
    )
