"""Limits of images, of values, and of what compressed files unpack to; the error of codecs.

The sizes that a file claims are compared with these limits before anything is allocated.
"""

MAX_PIXELS = 2**27
MAX_FILE_BYTES = 2**30
"""Maximum size of a value of a sample, and of a file that is one."""
MAX_LINE = 2**24
"""Maximum characters of a row of text."""
MAX_PLAIN_BYTES = 2**27
MAX_INFLATED_BYTES = 2**31
"""Like `MAX_PLAIN_BYTES`, for data that are unpacked piece by piece into a temporary file."""
MAX_RATIO = 100
"""A file that unpacks to more than these limits may do so to this many times its size."""
ROW_BYTES = 8
"""Minimum bytes of a row while it is packed, even if it takes fewer in its file."""
MAX_SCANS = 500
"""Maximum scans of a progressive JPEG; each costs a pass over the whole image."""

TRIES = 3
"""Number of times that a failing source is read before the failure counts."""


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


def check_value(size_bytes: int) -> None:
    """Apply the limit of a value, before it is read.

    Raises:
        CodecError: the value is too large.
    """
    if size_bytes > MAX_FILE_BYTES:
        raise CodecError(
            f"it has {size_bytes} bytes, more than the limit of {MAX_FILE_BYTES} for one value; "
            "divide it into several samples or fields"
        )


def check_unpacked(
    size_bytes: int, stored_bytes: int, how: str, plain_bytes: int = MAX_PLAIN_BYTES
) -> None:
    """Apply the limit of what a compressed file unpacks to, before it is unpacked.

    Args:
        size_bytes: the unpacked size that the file claims.
        stored_bytes: size of the file.
        how: how to write it without compression, for the message.
        plain_bytes: the size to which every file may unpack.

    Raises:
        CodecError: the unpacked size is above the limit.
    """
    if size_bytes > max(plain_bytes, MAX_RATIO * stored_bytes):
        raise CodecError(
            f"its {stored_bytes} bytes unpack to {size_bytes}, more than {MAX_RATIO} times the "
            f"size of the file and more than {plain_bytes} bytes; if that is meant, write it "
            f"without compression ({how})"
        )
