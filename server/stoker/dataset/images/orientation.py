"""EXIF orientation: found in a file's header, applied by NumPy views.

The orientation is the tag 0x0112 of the first image directory in a JPEG's first `Exif` segment or
in a PNG's `eXIf` chunk. A missing, damaged or out-of-range value counts as 1, as in viewers. XMP is
not read. Source of the values: CIPA DC-008 (Exif 2.32), 4.6.4, tag Orientation.
"""

import struct

import numpy as np

from stoker.dataset.images.png import SIGNATURE as PNG_SIGNATURE
from stoker.dataset.images.png import DamagedPngError, chunks

KEPT = "EXIF orientation kept: the pixels are used as stored"
"""The note for the owner of such an image."""
_TAG = 0x0112
_MAX_ENTRIES = 4096
_EXIF = b"Exif\0\0"
_STANDALONE = {0x01, *range(0xD0, 0xD9)}
_START_OF_SCAN, _APP1 = 0xDA, 0xE1


def find_orientation(data: bytes | memoryview) -> int:
    """Return the orientation (1..8) in the header of a JPEG or PNG."""
    view = memoryview(data)
    try:
        exif = _png_exif(view) if view[:8] == PNG_SIGNATURE else _jpeg_exif(view)
        return 1 if exif is None else _from_tiff(exif)
    except (struct.error, IndexError, DamagedPngError):
        return 1


def oriented(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Return an upright view of stored pixels (h, w, ...).

    Its shape is (w, h, ...) for orientations 5 to 8.
    """
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels


def laid_back(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Return a view of upright pixels in their stored orientation; the inverse of `oriented`."""
    return oriented(pixels, {6: 8, 8: 6}.get(orientation, orientation))


def upright_size(height: int, width: int, orientation: int) -> tuple[int, int]:
    """Return (height, width) after orientation; also the inverse, from upright to stored."""
    return (width, height) if orientation >= 5 else (height, width)


def stored_box(
    box: tuple[int, int, int, int], size: tuple[int, int], orientation: int
) -> tuple[int, int, int, int]:
    """Return the box of the stored image for a box of the upright image.

    Args:
        box: (top, left, height, width), upright.
        size: (height, width) as stored.
        orientation: 1..8.
    """
    top, left, height, width = box
    if orientation >= 5:
        top, left, height, width = left, top, width, height
    if orientation in (3, 4, 6, 7):
        top = size[0] - top - height
    if orientation in (2, 3, 7, 8):
        left = size[1] - left - width
    return top, left, height, width


def _png_exif(view: memoryview) -> memoryview | None:
    for name, body in chunks(view):
        if name == b"eXIf":
            return body
        if name == b"IEND":
            break
    return None


def _jpeg_exif(view: memoryview) -> memoryview | None:
    """Walk the segments up to the first scan; each step moves forward, so it ends."""
    place = 2
    while place + 4 <= len(view):
        if view[place] != 0xFF:
            return None
        marker = view[place + 1]
        if marker == 0xFF:
            place += 1
            continue
        if marker in _STANDALONE:
            place += 2
            continue
        length = struct.unpack_from(">H", view, place + 2)[0]
        body = view[place + 4 : place + 2 + length]
        if marker == _START_OF_SCAN or length < 2:
            return None
        if marker == _APP1 and body[:6] == _EXIF:
            return body[6:]
        place += 2 + length
    return None


def _from_tiff(exif: memoryview) -> int:
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(bytes(exif[:4]))
    if order is None:
        return 1
    (start,) = struct.unpack_from(order + "I", exif, 4)
    (count,) = struct.unpack_from(order + "H", exif, start)
    for index in range(min(count, _MAX_ENTRIES)):
        place = start + 2 + 12 * index
        tag, kind, items = struct.unpack_from(order + "HHI", exif, place)
        if tag == _TAG and kind in (3, 4) and items == 1:
            (value,) = struct.unpack_from(order + ("H" if kind == 3 else "I"), exif, place + 8)
            return value if 1 <= value <= 8 else 1
    return 1
