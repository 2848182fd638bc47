"""FFCV's `ffcv.libffcv`: C functions of its decoders.

It has no names here. The error of an import says what to use instead. Only scripts import it.
"""

from stoker.compat.ffcv.missing_names import missing_names

__getattr__ = missing_names(
    __name__,
    "a Stoker dataset is decoded by Stoker: use the decoders of fields.decoders, or NumPy and "
    "OpenCV in an operation whose state has jit_mode=False",
)
