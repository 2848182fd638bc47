"""FFCV's `ffcv.types`: the layout of its files."""

from stoker.compat.ffcv.missing_names import missing_names

__getattr__ = missing_names(
    __name__,
    "a Stoker dataset has another layout: reader.Reader has num_samples and field_names, and "
    "`stoker pack` reads files of FFCV",
)
