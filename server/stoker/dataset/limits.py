"""Limits of single images and files, and the error of codecs."""

MAX_PIXELS = 2**27
MAX_FILE_BYTES = 2**30
MAX_SCANS = 500
"""Maximum scans of a progressive JPEG; each costs a pass over the whole image."""

TRIES = 3
"""How many times a failing source is read before the failure counts."""


class CodecError(ValueError):
    """An image cannot be decoded; the text says why. Callers add its place."""


def check_pixels(height: int, width: int) -> None:
    """Apply the pixel limit, before anything is allocated.

    Raises:
        CodecError: the image is empty or too large.
    """
    if height < 1 or width < 1:
        raise CodecError(f"it has {height}x{width} pixels, so it is empty")
    if height * width > MAX_PIXELS:
        raise CodecError(
            f"it has {height}x{width} pixels, more than the limit of {MAX_PIXELS}; scale it down"
        )
