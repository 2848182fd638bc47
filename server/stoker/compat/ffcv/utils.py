"""FFCV's `ffcv.utils`: helpers for its files."""

from stoker.compat.ffcv.missing_names import missing_names

__getattr__ = missing_names(
    __name__,
    "its helpers belong to the layout of FFCV's files: copy the function that you need into your "
    "script",
)
