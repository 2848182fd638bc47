"""Limits of single pictures and files, and the error of a codec."""

MAX_PIXELS = 2**27
MAX_FILE_BYTES = 2**30
MAX_SCANS = 500
"""Scans of a progressive JPEG; each costs a pass over the whole picture."""

TRIES = 3
"""How often a source is read that fails, before the failure counts."""


class CodecError(ValueError):
    """A picture cannot be decoded; the text says why. Callers add where it lies."""


def check_pixels(height: int, width: int) -> None:
    """Apply the pixel limit, before anything is allocated.

    Raises:
        CodecError: the picture is empty or too large.
    """
    if height < 1 or width < 1:
        raise CodecError(f"it has {height}x{width} pixels, so it is empty")
    if height * width > MAX_PIXELS:
        raise CodecError(
            f"it has {height}x{width} pixels, more than the limit of {MAX_PIXELS}; make it smaller"
        )
