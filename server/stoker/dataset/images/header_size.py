"""The size and orientation of an image from the start of its file, without decoding it.

For an intact image the result equals that of `inspect_picture`. Only JPEGs and PNGs, because files
that are read in place are decoded unchanged.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from stoker.dataset.images.codecs import read_jpeg_size, signature
from stoker.dataset.images.orientation import find_orientation, upright_size
from stoker.dataset.images.png import check_png_kind, check_rows, read_png_header
from stoker.dataset.limits import CodecError

HEAD_BYTES = 2**16
_START_OF_SCAN, _MARGIN = 0xDA, 512


class HeaderSize(NamedTuple):
    """The encoding, upright size and EXIF orientation of an image."""

    encoding: str
    height: int
    width: int
    orientation: int


def size_from_header(
    size_bytes: int, kind: str, read: Callable[[int], bytes], keep: bool = False
) -> HeaderSize:
    """Read the header of an image file.

    Args:
        size_bytes: size of the file.
        kind: "image" or "mask".
        read: returns the given number of bytes from the file's start.
        keep: whether the orientation is ignored; otherwise the size is the upright one.

    Raises:
        CodecError: it is neither a JPEG nor a PNG, its header is damaged, or it is too large.
    """
    head = read(min(size_bytes, HEAD_BYTES))
    encoding = signature(head)
    if encoding is None:
        raise CodecError(
            f"it is neither a JPEG nor a PNG (it begins with {head[:8].hex(' ')}), so it cannot be "
            "read in place; pack the source, which turns it into PNG"
        )
    if encoding == "png":
        # The orientation may come after the pixels, so a PNG is read whole.
        data = head if len(head) == size_bytes else read(size_bytes)
        header = read_png_header(data)
        check_png_kind(header, kind)
        check_rows(data, header)
        stored = header.height, header.width
    else:
        if kind == "mask":
            raise CodecError("it is a JPEG, which changes values, but a mask holds exact classes")
        data = head if _has_header(head) or len(head) == size_bytes else read(size_bytes)
        stored = read_jpeg_size(data)
    orientation = 1 if keep else find_orientation(data)
    return HeaderSize(encoding, *upright_size(*stored, orientation), orientation)


def _has_header(head: bytes) -> bool:
    """Return whether the start of a JPEG includes the header of its first scan."""
    place = 2
    while place + _MARGIN <= len(head):
        if head[place] != 0xFF:
            return False
        marker = head[place + 1]
        if marker == _START_OF_SCAN:
            return True
        if marker == 0xFF:
            place += 1
            continue
        place += 2 + int(struct.unpack_from(">H", head, place + 2)[0])
    return False
